"""Matches built one by one, and conditions on whole matches."""
