"""Loops over arrays of numbers; they are independent of queries."""
