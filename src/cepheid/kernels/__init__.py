"""Array loops: numbers in, numbers out; they know nothing of queries."""
