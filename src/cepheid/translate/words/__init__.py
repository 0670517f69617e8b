"""Texts of SQL-like languages as words, for dialects whose conditions are nearly ours."""
