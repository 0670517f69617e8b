"""Job interfaces and helpers that all kinds of query share."""
