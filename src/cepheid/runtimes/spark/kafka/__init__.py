"""Kafka without a jar: a source of Spark's Python Data Source API over librdkafka."""
