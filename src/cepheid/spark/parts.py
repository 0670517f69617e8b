"""A DataFrame in, its rows out in small tables, by way of files, so that memory stays flat.

Tasks write their rows as they make them; the driver reads the files one after the other. To collect
rows in the driver would need room for all of them, or at least for all of a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema

from cepheid.spark.failures import clear_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1 << 15
"""Rows of one table, at most."""


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema of a DataFrame."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def first_rows(frame: DataFrame, count: int) -> pa.Table:
    """Return so many rows of a DataFrame; no task makes more than it must.

    Raises
    ------
    DataError
        What a task said about the events, or E523 if Spark itself failed.
    """
    with clear_failures():
        return frame.limit(count).toArrow()


def tables_of(frame: DataFrame, folder: Path) -> Iterator[pa.Table]:
    """Yield the rows of a DataFrame, in the order of its tasks, by way of files in a new folder.

    On a cluster the folder must be one that all machines share.

    Raises
    ------
    DataError
        What a task said about the events, or E523 if Spark itself failed.
    """
    # Spark's own default is a type that cannot tell times of different units apart.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with clear_failures():
        frame.write.parquet(folder.absolute().as_uri())
    schema = schema_of(frame)
    for path in sorted(folder.glob("part-*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS):
                yield pa.Table.from_batches([batch]).cast(schema)
        path.unlink()
