"""Trends with edge predicates: events look up single earlier events."""
