"""Changelogs on Spark: the current table of a DataFrame, and of files (§18)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.changes.changelogs import BY_ID, OPS, OPS_BY_ID, Change, events_of, plain, table_of
from tests.changes.test_changelog import QUERIES

import cepheid
from cepheid.errors import DataError
from cepheid.spark.failures import clear_failures
from cepheid.testing.oracle_changes import current_table

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:no event has", "ignore:one task runs the whole query"),
]


def random_changes(seed: int, count: int, ops: tuple[str, ...]) -> list[Change]:
    """Draw a changelog of few values, so that changes meet."""
    draw = random.Random(seed)
    return [
        {
            "op": draw.choice(ops),
            "id": draw.randint(1, 40 if "c" in ops else 2),
            "ts": draw.randint(0, 40 if "c" in ops else 5),
            "type": draw.choice("AAB"),
            "key": draw.choice(["p", "q", None]),
            "zone": "z",
            "x": draw.choice([1, 2, None]),
            "price": draw.choice([1.0, 2.5]),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", ["aggregates", "matches", "select", "situations"])
@pytest.mark.parametrize("changes", [BY_ID, "op"])
def test_a_dataframe_is_a_changelog(spark: SparkSession, name: str, changes: Any) -> None:
    by_id = changes is BY_ID
    rows = random_changes(len(name), 150, OPS_BY_ID if by_id else OPS)
    query = cepheid.query(QUERIES[name])
    frame = spark.createDataFrame(table_of(rows))
    now = current_table(rows, id=["id"] if by_id else ())
    found = query.run(frame, changes=changes).toArrow().to_pylist()
    assert plain(found) == plain(query.run(events_of(now)).to_pylist())
    assert found


def test_spark_reads_changelogs_from_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = random_changes(5, 40, OPS_BY_ID)
    pq.write_table(table_of(rows), tmp_path / "changes.parquet")
    query = cepheid.query(QUERIES["aggregates"])
    found = query.run(tmp_path, spark=spark, changes=BY_ID).toArrow().to_pylist()
    now = current_table(rows, id=["id"])
    assert plain(found) == plain(query.run(events_of(now)).to_pylist())


def test_a_bad_change_fails_on_spark(spark: SparkSession) -> None:
    rows = [*random_changes(1, 5, OPS_BY_ID), {"op": "upsert", "id": 1, "ts": 3, "type": "A"}]
    query = cepheid.query(QUERIES["aggregates"])
    with pytest.raises(DataError, match="E583"), clear_failures():
        query.run(spark.createDataFrame(table_of(rows)), changes=BY_ID).collect()
