"""Sweeps: a query for every value of a constant."""
