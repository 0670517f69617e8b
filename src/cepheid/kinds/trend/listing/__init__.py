"""Enumeration of matches, and conditions on whole matches."""
