"""Row patterns: MATCH_RECOGNIZE in SQL."""
