"""SELECT queries, run by Spark's own operators."""
