"""Plans of queries: frozen values that hold every decision."""
