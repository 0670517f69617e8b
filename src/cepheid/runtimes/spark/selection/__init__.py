"""SELECT with operators of Spark."""
