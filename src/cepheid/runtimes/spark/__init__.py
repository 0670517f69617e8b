"""Spark jobs over DataFrames, files, stores and live streams."""
