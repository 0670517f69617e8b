"""Trends on a GPU."""
