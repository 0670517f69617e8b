"""Jobs on Spark: DataFrames, files, stores and live streams."""
