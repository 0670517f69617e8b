"""What all kinds of query have in common."""
