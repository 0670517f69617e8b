"""Plans of queries: immutable values that hold every planning decision."""
