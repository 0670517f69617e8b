"""Changelogs on Spark: the current table of a DataFrame, and of files (§18)."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.changes.changelogs import BY_ID, OPS, OPS_BY_ID, Change, events_of, plain, table_of
from tests.changes.test_changelog import QUERIES
from tests.chaos.processes import DAEMON, children, command, kill
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.errors import CepheidError, DataError
from cepheid.spark.failures import clear_failures
from cepheid.testing.oracle_changes import Table, apply_rows, current_table

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


@share(2)
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


LIVE = {
    "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 10 us SLIDE 5 us": True,
    "RETURN COUNT(*) PATTERN SEQ(A+, B)": False,
    "RETURN MATCHES PATTERN SEQ(A, B) WHERE [key] WITHIN 10 us": True,
    "SELECT key, COUNT(*) AS n FROM Events GROUP BY key WINDOW 10 us": True,
    "PARTITION BY key DEFINE H AS x > 1 SITUATIONS H": True,
}


KILLED = 2
"""The micro-batch after which all workers are killed, and with them the tables that they keep."""


def kill_workers() -> None:
    """Kill the workers of this session, which wait for tasks."""
    machines = [pid for pid in children(os.getpid()) if b"java" in command(pid)]
    daemons = [pid for jvm in machines for pid in children(jvm) if DAEMON in command(pid)]
    workers = [pid for daemon in daemons for pid in children(daemon)]
    assert workers, "somebody ran the tasks"
    for worker in workers:
        kill(worker)


@share(2)
@pytest.mark.parametrize("text", LIVE)
@pytest.mark.filterwarnings("ignore:one task follows all changes")
def test_a_stream_follows_changes_through_a_restart(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    query, by_key = cepheid.query(text), LIVE[text]
    changes = {"op": "op", "id": ["key", "id"]} if by_key else BY_ID
    rows = [row | {"key": row["key"] or "p"} for row in random_changes(len(text), 120, OPS_BY_ID)]
    batches = [rows[begin : begin + 30] for begin in range(0, len(rows), 30)]
    told: dict[int, list[Change]] = {}

    def keep(frame: DataFrame, number: int) -> None:
        told[number] = frame.toArrow().to_pylist()
        if number == KILLED:
            kill_workers()

    for part in (batches[:2], batches[2:]):
        folder = write_files(tmp_path / "changes", [table_of(batch) for batch in part])
        source = read_stream(spark, folder, 1)
        live = query.stream(source, watermark="1 second", changes=changes)
        writer = live.writeStream.foreachBatch(keep).trigger(availableNow=True)
        started = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        started.awaitTermination()
        seen = sum(p["observedMetrics"]["cepheid"]["seen"] or 0 for p in started.recentProgress)
        assert seen == sum(map(len, part))
    now: dict[object, Change] = {}
    table = Table("op", changes["id"])
    for number, batch in enumerate(batches):
        now = apply_rows(now, told[number])
        for change in batch:
            table.apply(change)
        found = query.run(events_of(table.sorted())).to_pylist()
        assert plain(now.values()) == plain(found), number
    assert now


def test_bad_changes_of_a_stream_are_kept_apart(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Change] = [
        {"op": "c", "id": 1, "ts": 1, "type": "A", "key": "p"},
        {"op": "x", "id": 2, "ts": 1, "type": "A", "key": "p"},
        {"op": "c", "id": 2, "ts": None, "type": "A", "key": "p"},
        {"op": "c", "id": None, "ts": 3, "type": "A", "key": "p"},
        {"op": "d", "id": 7},
    ]
    source = read_stream(spark, write_files(tmp_path / "changes", [table_of(rows)]), 1)
    query = cepheid.query("RETURN COUNT(*) PATTERN A+")
    with pytest.warns(UserWarning, match="one task follows all changes: the query has no key"):
        live, bad = query.stream(source, watermark="1 second", changes=BY_ID, bad="side")
    found, progress = drain(live, tmp_path, "rows")
    assert [(r["op"], r["count"]) for r in found.to_pylist()] == [("insert", 1.0)]
    records = [p["observedMetrics"].get("cepheid_records") for p in progress]
    assert sum(one["bad"] or 0 for one in records if one is not None) == 3
    reasons = drain(bad, tmp_path, "bad")[0]["_reason"].to_pylist()
    assert sorted(str(reason).split(":")[0][:22] for reason in reasons) == [
        "the id is NULL",
        "the operation `x` is n",
        "the time `ts` is NULL",
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"late": "side"}, "E591"),
        ({"idle": "1 minute"}, "E591"),
        ({"since": 5}, "E591"),
        ({"changes": "kind"}, "E505"),
    ],
)
def test_options_of_streams_that_do_not_fit(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    source = read_stream(
        spark, write_files(tmp_path / "c", [table_of(random_changes(1, 3, OPS))]), 1
    )
    query = cepheid.query("RETURN COUNT(*) PATTERN A+")
    with pytest.raises(CepheidError) as caught:
        query.stream(source, **{"watermark": "1 second", "changes": BY_ID} | options)
    assert caught.value.diagnostics[0].code == code
