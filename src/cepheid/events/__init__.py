"""The data model of events: schemas, types and time."""
