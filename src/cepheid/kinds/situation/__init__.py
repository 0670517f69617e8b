"""Situations: intervals in which conditions hold, and the temporal relations between them."""
