"""Trends: patterns of events, aggregated or listed."""
