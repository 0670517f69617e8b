"""Cepheid finds, counts and aggregates patterns in streams of events."""
