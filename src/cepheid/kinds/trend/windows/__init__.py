"""The steps of a query: events in, rows of closed windows or matches out."""
