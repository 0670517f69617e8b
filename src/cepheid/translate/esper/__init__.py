"""EPL, the language of Esper: filters, windows, joins, patterns and row patterns of its core."""
