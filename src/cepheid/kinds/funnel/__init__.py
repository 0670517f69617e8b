"""Funnels: how many keys reach each step of a sequence, and how long a step takes."""
