"""`cepheid mcp`: queries as tools for assistants that speak the Model Context Protocol."""
