"""What all code on Spark shares: sessions, schemas, batches and failures."""
