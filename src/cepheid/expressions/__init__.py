"""Expressions: one tree, one table of functions, and what they mean."""
