"""Flink SQL: its MATCH_RECOGNIZE is that of Cepheid, but for what is noted."""
