"""Surveys: what is told about matches that are never built (§17)."""
