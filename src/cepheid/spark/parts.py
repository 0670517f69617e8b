"""Read a DataFrame in small tables through files, so that driver memory stays constant.

Tasks write their rows as they produce them; the driver reads one file after the other. Collecting
rows in the driver would need memory for all of them, or at least for all rows of a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from cepheid.spark.failures import clear_failures
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1 << 15
"""Rows of one table, at most."""


def schema_of(frame: DataFrame) -> pa.Schema:
    """Convert the schema of a DataFrame to Arrow."""
    return arrow_schema(frame.schema)


def first_rows(frame: DataFrame, count: int) -> pa.Table:
    """Collect the first rows of a DataFrame; tasks compute no more than necessary.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    with clear_failures():
        return frame.limit(count).toArrow()


def tables_of(frame: DataFrame, folder: Path) -> Iterator[pa.Table]:
    """Yield the rows of a DataFrame in the order of its tasks, through files in a new folder.

    On a cluster the folder must be one that all machines share.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
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
