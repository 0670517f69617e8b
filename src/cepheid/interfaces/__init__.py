"""The user interface: the command line."""
