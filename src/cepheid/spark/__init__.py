"""Code that everything on Spark shares: sessions, schemas, batches and failures."""
