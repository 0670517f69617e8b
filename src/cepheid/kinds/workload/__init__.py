"""Workloads: several queries in one pass."""
