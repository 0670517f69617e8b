"""Expressions: one meaning, several ways to evaluate them."""
