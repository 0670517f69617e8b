"""A folder of Parquet files, or of lines, with the rows of each micro-batch, once.

Spark's own file sink does the work: a log in the folder, ``_spark_metadata``, lists the files of
each micro-batch, and readers of Spark see only those. It is called for one DataFrame at a time, so
that one query can write to several folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types

from cepheid.errors import DataError, Diagnostic
from cepheid.runtimes.spark.sinks.calls import Write, sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKAGE = "org.apache.spark.sql.execution.streaming"
_CLASSES = (f"{_PACKAGE}.sinks.FileStreamSink", f"{_PACKAGE}.FileStreamSink")
"""Where Spark has its file sink; the second place is that of versions before 4.1."""


def folder_sink(path: str, *, lines: bool = False) -> Write:
    """Build the function that adds the rows of a micro-batch to a folder; ``lines`` are texts."""
    made: list[Any] = []
    # Spark's sink takes no relative path; one with a scheme, such as s3a:, is absolute.
    place = path if urlsplit(path).scheme else str(Path(path).absolute())

    @sink
    def write(batch: DataFrame, number: int) -> None:
        if not made:
            made.append(_file_sink(batch.sparkSession, place, lines=lines))
        # It skips a micro-batch that its log names.
        made[0].addBatch(number, batch._jdf)

    return write


def _file_sink(spark: SparkSession, path: str, *, lines: bool) -> Any:
    jvm: Any = spark.sparkContext._jvm
    forms = jvm.org.apache.spark.sql.execution.datasources
    form = forms.text.TextFileFormat() if lines else forms.parquet.ParquetFileFormat()
    convert = jvm.org.apache.spark.api.python.PythonUtils
    values = (spark._jsparkSession, path, form, convert.toSeq([]), convert.toScalaMap({}))
    for name in _CLASSES:
        try:
            jvm.java.lang.Class.forName(name)
        except Py4JError:
            continue
        place: Any = jvm
        for part in name.split("."):
            place = getattr(place, part)
        return place(*values)
    message = f"Spark {spark.version} has its file sink in another place"
    raise DataError([Diagnostic("E523", message)])
