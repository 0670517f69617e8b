"""Kinds of query; a new one is a folder here and a line in the table."""
