"""Rows of a DataFrame by way of files: the same rows, and no files are left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.spark import parts as spark_parts

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_rows_come_in_small_tables(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"ts": range(17), "type": ["A"] * 17, "key": ["p"] * 17})
    frame = query("RETURN MATCHES PATTERN A+ GROUP-BY key").run(
        spark.createDataFrame(table.to_pandas())
    )
    tables = list(spark_parts.tables_of(frame, tmp_path / "rows"))
    assert max(map(len, tables)) <= spark_parts.ROWS
    assert {part.schema for part in tables} == {spark_parts.schema_of(frame)}
    found = pa.concat_tables(tables)
    assert len(found) == len(set(found["match_id"].to_pylist())) == 2**17 - 1
    assert not list((tmp_path / "rows").glob("part-*"))
    assert len(spark_parts.first_rows(frame, 5)) == 5


def test_what_tasks_say_is_told(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(1, "A", 2**62), (2, "A", 2**62)], "ts long, type string, x long"
    )
    listed = query("RETURN MATCHES PATTERN A+ WHERE [type] AND A.x * 4 > NEXT(A).x").run(frame)
    with pytest.raises(DataError, match="E504"):
        list(spark_parts.tables_of(listed, tmp_path / "rows"))
    with pytest.raises(DataError, match="E504"):
        spark_parts.first_rows(listed, 1)
