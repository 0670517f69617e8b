"""Situations: how long conditions hold, and how such times relate."""
