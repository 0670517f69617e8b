"""Build the plan of trends from the syntax tree of a query."""
