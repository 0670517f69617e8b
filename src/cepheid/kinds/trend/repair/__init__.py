"""Aggregates of a table that changes: a tree of matrices for every key and pane, repaired."""
