"""Topics of Kafka without Spark: clients, offsets, and messages as Arrow batches."""
