"""The steps of a query: events in, rows of windows that close or matches out."""
