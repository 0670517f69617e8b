"""What an event is: schemas, types and time."""
