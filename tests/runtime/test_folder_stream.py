"""Parquet files of a folder, read by the tasks that send events: the answers of the usual way."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

import cepheid
from cepheid.jobs.tables import table_from_bytes
from cepheid.options import LiveOptions
from cepheid.runtimes.spark import folder_stream
from cepheid.runtimes.spark.folder_tasks import Judged, send_files
from cepheid.runtimes.spark.live_changes import stream_changes
from cepheid.runtimes.spark.stream import stream_frame
from cepheid.spark.file_records import read_folder
from cepheid.spark.hashes import buckets_of_keys
from cepheid.spark.records import REASON
from cepheid.spark.schema import spark_schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 10 seconds SLIDE 10 seconds"
KEYS: dict[str, tuple[list[Any], Any]] = {
    "int": ([0, -1, 2**31 - 1, None], pa.int32()),
    "short": ([0, -1, 2**15 - 1, None], pa.int16()),
    "long": ([0, -1, 2**63 - 1, None], pa.int64()),
    "bool": ([True, False, None, True], pa.bool_()),
    "text": (["", "abc", "straße, 12 b", None], pa.string()),
    "double": ([0.0, -0.0, float("nan"), None], pa.float64()),
    "float": ([1.5, -0.0, float("nan"), None], pa.float32()),
    "day": ([date(1969, 12, 31), date(2026, 1, 1), None, None], pa.date32()),
    "time": ([BEGIN, BEGIN - timedelta(days=30000), None, BEGIN], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("names", [[name] for name in KEYS] + [["text", "long"], ["int", "text"]])
def test_buckets_of_keys_are_those_of_spark(spark: SparkSession, names: list[str]) -> None:
    columns = [pa.array(KEYS[name][0], KEYS[name][1]) for name in names]
    table = pa.table(columns, names=names)
    rows = spark.createDataFrame(
        [tuple(row.values()) for row in table.to_pylist()], spark_schema_of(table.schema)
    )
    zero = sf.lit(0.0)
    keys = [
        sf.when(sf.isnan(name), sf.lit(float("nan"))).otherwise(sf.col(name) + zero)
        if name in ("double", "float")
        else sf.col(name)
        for name in names
    ]
    wanted = [row[0] for row in rows.select(sf.pmod(sf.hash(*keys), sf.lit(1000))).collect()]
    assert buckets_of_keys(columns, 1000).tolist() == wanted


def write(folder: Path, number: int, columns: dict[str, Any]) -> None:
    """Write a file of events."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.parquet"
    parquet.write_table(pa.table(columns), file)
    # A stream takes the oldest files first, and those of one moment in any order.
    os.utime(file, (1_700_000_000 + number,) * 2)


def make_folder(folder: Path) -> None:
    """Write files with events, records that are bad for every cause, and one that is damaged."""
    random = np.random.default_rng(3)
    for number in range(3):
        count = 200
        seconds = np.sort(random.integers(0, 20, count)) + 15 * number
        write(
            folder,
            number,
            {
                "ts": pa.array([BEGIN + timedelta(seconds=int(s)) for s in seconds]),
                "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, count)]),
                "key": pa.array([f"k{n}" for n in random.integers(0, 9, count)]),
                "more": pa.array(random.integers(0, 100, count).astype(str)),
            },
        )
    write(
        folder,
        3,
        {
            "ts": pa.array([None, BEGIN + timedelta(days=20000), BEGIN, BEGIN + timedelta(1)]),
            "type": ["A", "A", "A", "C"],
            # A type that the pattern lacks needs no key, and a text is no number.
            "key": ["k1", "k1", None, None],
            "more": ["1", "2", "3", "x"],
        },
    )
    (folder / "4.parquet").write_bytes(b"PAR1 is not enough")
    twins: list[Any] = [
        pa.array([BEGIN]),
        pa.array(["A"]),
        pa.array(["k1"]),
        pa.array([1]),
        pa.array([2]),
    ]
    two = pa.Table.from_arrays(twins, names=["ts", "type", "key", "more", "more"])
    parquet.write_table(two, folder / "5.parquet")
    os.utime(folder / "5.parquet", (1_700_000_005,) * 2)


@pytest.mark.parametrize(
    "query", [QUERY, "RETURN COUNT(*) PATTERN A WITHIN 10 seconds SLIDE 10 seconds"]
)
def test_rows_and_bad_records_are_those_of_the_usual_way(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    make_folder(tmp_path / "events")
    found = {own: run(spark, tmp_path, query, own=own) for own in (True, False)}
    rows, bad, counts = found[True]
    assert len(rows) >= 4
    assert len(bad) == (6 if "key" in query else 5)
    assert found[True] == found[False]
    assert counts["records"] == 606


def test_a_value_in_a_path_that_does_not_fit_makes_records_bad(tmp_path: Path) -> None:
    folder = tmp_path / "more=x"
    write(folder, 1, {"ts": pa.array([BEGIN]), "type": ["A"], "key": ["k1"]})
    text: Any = pa.string()
    names = [("ts", pa.timestamp("us", "UTC")), ("type", text), ("key", text), ("more", pa.int32())]
    columns = pa.schema(names)
    reads = ("ts", "type", "key")
    judged = Judged(
        columns.serialize().to_pybytes(), reads, "ts", 1000, 0, "type", ("A",), ("key",), reads,
        keeps_bad=True, buckets=2, placed_by=("key",),
    )  # fmt: skip
    path: Any = pa.array([f"file:{folder}/1.parquet"])
    arrays = [path, pa.nulls(1, pa.binary()), pa.array([BEGIN])]
    paths = pa.RecordBatch.from_arrays(arrays, ["path", "content", "clock"])
    (sent,) = send_files(judged, iter)(iter([paths]))
    bad = table_from_bytes(sent.column("wrong")[0].as_py())
    assert bad[REASON].to_pylist() == ["the value of `more` is not of type int32"]


OPS = ["c", "Insert", "u", "d", "update_preimage", "update_postimage", None, "upsert"]
CHANGES: list[Any] = [
    {"op": "op", "id": ["key", "id"]},
    {"op": "op", "id": ["id"], "order": ["more"]},
    "op",
]


def make_changes(folder: Path) -> None:
    """Write files of changes: all operations, NULL in every column, times that are too late."""
    random = np.random.default_rng(4)
    count = 150
    for number in range(3):
        seconds = random.integers(0, 60, count).tolist()
        times = [BEGIN + timedelta(seconds=s) if s else None for s in seconds]
        times[3] = times[4] = BEGIN + timedelta(days=20000)
        ids = random.integers(0, 30, count)
        write(
            folder,
            number,
            {
                "op": pa.array([OPS[n] for n in random.choice(8, count, p=[0.4] + [0.6 / 7] * 7)]),
                "id": pa.array(ids, mask=random.random(count) < 0.1),
                "ts": pa.array(times),
                "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, count)]),
                "key": pa.array([f"k{n % 5}" for n in ids], mask=random.random(count) < 0.1),
                # A text in the last file is no number.
                "more": pa.array(
                    [*random.integers(0, 9, count - 1).astype(str), "x"[: number - 1]]
                ),
            },
        )
    (folder / "3.parquet").write_bytes(b"PAR1 is not enough")


@pytest.mark.parametrize("changes", CHANGES, ids=["key and id", "order", "no id"])
@pytest.mark.filterwarnings("ignore:one task follows all changes")
def test_changes_are_judged_as_on_the_usual_way(
    spark: SparkSession, tmp_path: Path, changes: Any
) -> None:
    make_changes(tmp_path / "events")
    found = {own: run(spark, tmp_path, QUERY, own=own, changes=changes) for own in (True, False)}
    rows, bad, counts = found[True]
    assert rows
    assert len(bad) == counts["bad"]
    assert sum("the file could not be read" in reason for *_, reason in bad) == 1
    assert min(counts[name] for name in ("unread", "no_time", "ahead")) >= 1
    assert (counts["no_key"] > 0) == (changes != "op")
    assert counts["records"] == 451
    assert found[True] == found[False]


def run(
    spark: SparkSession, folder: Path, query: str, *, own: bool, changes: Any = None
) -> tuple[list[Any], list[Any], dict[str, int]]:
    """Run a live query over the folder; return its rows, bad records and counters."""
    columns = "ts timestamp, type string, key string, more int"
    if changes is not None:
        columns = f"op string, id bigint, {columns}"
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    # Spark keeps no order among the files of a micro-batch, which changes need.
    records = read_folder(spark, str(folder / "events"), "parquet", schema, 2 - bool(changes))
    asked = LiveOptions("6 seconds", bad="side", tagged=True, changes=changes)
    chosen = folder_stream.FolderColumns.reading
    with mock.patch.object(
        folder_stream.FolderColumns, "reading", chosen if own else lambda *_: None
    ):
        build = stream_frame if changes is None else stream_changes
        output = build(cepheid.query(query), records, asked)
    is_own = "AS clock" in output.frame._jdf.queryExecution().toString()
    assert is_own == own, "the way that is to be tested"
    parts: dict[str, list[Any]] = {"rows": [], "bad": []}

    def write_parts(batch: Any, _number: int) -> None:
        for part in parts:
            parts[part] += [tuple(row) for row in output.select(part, batch).collect()]

    live = (
        output.frame.writeStream.foreachBatch(write_parts)
        .option("checkpointLocation", str(folder / f"checkpoint-{own}"))
        .trigger(availableNow=True)
        .start()
    )
    live.awaitTermination()
    told = [p.observedMetrics["cepheid_records"].asDict() for p in live.recentProgress]
    names = ("records", "bad", "unread", "no_time", "too_far", "ahead", "no_key")
    counts = {name: sum(one[name] for one in told) for name in names}
    nulls = [one["nulls"] for one in told if one["nulls"]]
    counts |= {f"null {n}": sum(one[n] for one in nulls) for n in nulls[0]}
    return sorted(parts["rows"], key=str), sorted(parts["bad"], key=str), counts
