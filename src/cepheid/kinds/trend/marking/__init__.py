"""Deadlines: mark the events of a stream, and run a query over marked events (§2.12)."""
