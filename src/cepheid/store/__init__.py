"""The event store: immutable segments of Parquet, a manifest, and indexes beside them."""
