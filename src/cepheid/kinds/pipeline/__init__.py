"""Pipelines: queries whose rows are the events of further queries (§15)."""
