"""SQL's row pattern recognition (MATCH_RECOGNIZE): from the text of a clause to its result."""
