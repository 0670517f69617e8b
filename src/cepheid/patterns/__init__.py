"""Names, symbols and required events: shared by all kinds that have patterns."""
