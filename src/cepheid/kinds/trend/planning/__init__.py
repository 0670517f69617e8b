"""From the tree of a query to the plan of its trends."""
