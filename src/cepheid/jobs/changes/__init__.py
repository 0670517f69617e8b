"""Tables that change (§18): a changelog in, the rows of the current table or their changes out."""
