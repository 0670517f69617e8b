"""Trends with edge predicates: events look back at single events."""
