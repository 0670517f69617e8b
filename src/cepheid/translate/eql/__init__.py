"""EQL, the event query language of Elastic, by a grammar of our own."""
