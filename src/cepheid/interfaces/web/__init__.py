"""The workbench: a page in the browser to write queries, run them and look at events."""
