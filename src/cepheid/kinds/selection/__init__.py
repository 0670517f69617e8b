"""SELECT: rows, windowed aggregates and windowed joins."""
