"""DataFrames over Parquet files, which tasks read themselves: the answers of the usual way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as sf

import cepheid
from cepheid.runtimes.spark.event_source import EventSource
from cepheid.runtimes.spark.row_shuffle import run_by_keys
from cepheid.spark.frame_files import FrameFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNT = 600
KEYED = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key"
QUERIES = {
    "by key": (KEYED, "key shuffle"),
    "by two keys": (
        KEYED.replace("key", "key, name").replace("[key, name]", "[key]"), "key shuffle"
    ),
    "all events": ("RETURN COUNT(*) PATTERN SEQ(A+, B)", "key shuffle"),
    "windows by time": (
        "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key "
        "WITHIN 10 us SLIDE 10 us",
        "time shuffle",
    ),
    "contiguous": ("RETURN key, COUNT(*) PATTERN A+ WHERE [key] SEMANTICS contiguous GROUP-BY key",
                   "key shuffle"),
}  # fmt: skip
CLAUSE = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
        {} ORDER BY ts, x MEASURES FIRST(D.x) AS first, LAST(D.x) AS last
        ONE ROW PER MATCH PATTERN (S D+) DEFINE D AS x < PREV(x)
    )"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write two files of several row groups, with NULLs in keys and values."""
    random = np.random.default_rng(5)
    place = tmp_path / "the events"  # A path of Spark has escapes.
    place.mkdir()
    for number in range(2):
        table = pa.table(
            {
                "ts": pa.array(np.arange(COUNT) + number * COUNT).view(pa.timestamp("us", "UTC")),
                "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, COUNT)]),
                "key": pa.array(
                    [None if n == 7 else int(n) for n in random.integers(0, 9, COUNT)], pa.int32()
                ),
                "name": pa.array([f"n{n}" for n in random.integers(0, 3, COUNT)]),
                "x": pa.array(random.permutation(COUNT).astype(float)),
            }
        )
        parquet.write_table(table, place / f"{number}.parquet", row_group_size=100)
    return place


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def usual_way() -> Any:
    """Return a context in which Spark reads all files."""
    return mock.patch.object(FrameFiles, "of", staticmethod(lambda *_: None))


def sending(module: str, *, sends: bool) -> Any:
    """Return a context in which events are sent, or in which tasks read all files."""
    return mock.patch(f"cepheid.runtimes.spark.{module}.all_read_all", return_value=not sends)


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_events_of_files_have_the_rows_of_the_usual_way(
    spark: SparkSession, folder: Path, name: str, *, sends: bool
) -> None:
    text, strategy = QUERIES[name]
    frame = spark.read.parquet(str(folder))
    with usual_way():
        wanted = rows_of(cepheid.query(text).run(frame, strategy=strategy))
    mapped = FrameFiles.mapped
    own = EventSource.own_events
    with (
        mock.patch.object(FrameFiles, "mapped", autospec=True, side_effect=mapped) as sent,
        mock.patch.object(EventSource, "own_events", autospec=True, side_effect=own) as kept,
        sending("batch", sends=sends),
    ):
        found = rows_of(cepheid.query(text).run(frame, strategy=strategy))
    assert kept.called == (strategy == "key shuffle" and not sends)
    assert sent.called or kept.called
    assert found == wanted
    assert len(found) > (1 if "key" in text else 0)


def test_a_query_drops_events_of_other_types_where_it_may(
    spark: SparkSession, folder: Path
) -> None:
    frame = spark.read.parquet(str(folder))
    types = {}
    for name in ("by key", "contiguous"):
        plan = cepheid.query(QUERIES[name][0]).with_schema(frame.schema).plan
        source = EventSource.of(frame, frame, plan)
        assert source.files is not None
        types[name] = source.types
    assert types == {"by key": ("A", "B"), "contiguous": None}


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("partition", ["PARTITION BY key", "PARTITION BY name, key", ""])
@pytest.mark.parametrize("source", ["ticks", "(SELECT ts, x, key, name FROM ticks WHERE x >= 0)"])
def test_row_patterns_over_files_are_those_in_process(
    spark: SparkSession, folder: Path, partition: str, source: str, *, sends: bool
) -> None:
    spark.read.parquet(str(folder)).createOrReplaceTempView("ticks")
    text = CLAUSE.format(partition).replace("FROM ticks", f"FROM {source}")
    table = parquet.read_table(folder)
    wanted = cepheid.sql(text, tables={"ticks": table})
    with sending("row_shuffle", sends=sends):
        found = rows_of(cepheid.sql(spark, text))
        told = cepheid.sql(spark, text, explain=True)
    shuffled = partition != "" and (sends or source != "ticks")
    assert ("one shuffle by" in told) == shuffled
    assert found == sorted((tuple(row.values()) for row in wanted.to_pylist()), key=str)
    assert len(found) > 50


CHANGES: dict[str, Callable[[Any], Any]] = {
    "filtered": lambda frame: frame.filter("x > 3"),
    "renamed": lambda frame: frame.withColumnRenamed("x", "y"),
    "computed": lambda frame: frame.withColumn("x", sf.col("x") + 1),
    "limited": lambda frame: frame.limit(3),
    "united": lambda frame: frame.union(frame),
    "cached": lambda frame: frame.cache(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_frames_with_more_to_do_are_left_to_spark(
    spark: SparkSession, folder: Path, change: str
) -> None:
    frame = spark.read.parquet(str(folder))
    assert FrameFiles.of(frame.select("x", "ts"), ["x"]) is not None
    changed = CHANGES[change](frame)
    assert FrameFiles.of(changed, changed.columns) is None
    changed.unpersist()


def test_files_that_arrow_reads_otherwise_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases: dict[str, Any] = {
        "plain": pa.array([1, 2]),
        "binary": pa.array([b"a", b"b"]),
        "list": pa.array([[1], [2]]),
    }
    for name, column in cases.items():
        place = tmp_path / name
        place.mkdir()
        parquet.write_table(pa.table({"x": column}), place / "1.parquet")
        found = FrameFiles.of(spark.read.parquet(str(place)), ["x"])
        assert (found is not None) == (name == "plain"), name
    place = tmp_path / "old"
    place.mkdir()
    old = pa.table({"x": [1]}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    parquet.write_table(old, place / "1.parquet")
    assert FrameFiles.of(spark.read.parquet(str(place)), ["x"]) is None
    parts = tmp_path / "parts" / "day=1"
    parts.mkdir(parents=True)
    parquet.write_table(pa.table({"x": [1]}), parts / "1.parquet")
    assert FrameFiles.of(spark.read.parquet(str(parts.parent)), ["x"]) is None


def test_damaged_files_that_spark_ignores_are_left_to_spark(
    spark: SparkSession, folder: Path
) -> None:
    lenient = spark.read.option("ignoreCorruptFiles", "true").parquet(str(folder))
    assert FrameFiles.of(lenient, ["x"]) is None


def test_a_path_that_is_named_twice_has_its_rows_twice(spark: SparkSession, folder: Path) -> None:
    for paths in ([folder, folder], [folder / "0.parquet", folder / "0.parquet"]):
        frame = spark.read.parquet(*map(str, paths))
        assert FrameFiles.of(frame, ["x"]) is not None
        with usual_way():
            wanted = rows_of(cepheid.query(KEYED).run(frame))
        assert rows_of(cepheid.query(KEYED).run(frame)) == wanted


OLD = np.array(["1850-01-01", "1950-01-01"], "datetime64[us]")


@pytest.mark.parametrize(
    ("about", "mode", "first", "reads"),
    [
        ({}, "CORRECTED", 0, True),
        ({}, "LEGACY", 0, False),
        ({}, "EXCEPTION", 0, False),
        ({}, "LEGACY", 1, True),
        ({"org.apache.spark.version": "2.4.8"}, "CORRECTED", 1, False),
        ({"org.apache.spark.version": "3.5.0"}, "LEGACY", 0, True),
    ],
)
@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.date32()]
)
def test_old_days_that_spark_may_convert_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, about: dict[str, str], mode: str, first: int, kind: Any,
    *, reads: bool,
) -> None:  # fmt: skip
    days: Any = pa.array([None, *OLD[first:]], pa.timestamp("us")).cast(pa.date32())
    column = days if kind == pa.date32() else days.cast(pa.timestamp(kind.unit)).cast(kind)
    table = pa.table({"day": column}).replace_schema_metadata(about)
    parquet.write_table(table, tmp_path / "1.parquet")
    frame = spark.read.parquet(str(tmp_path))
    with rebasing(spark, mode):
        assert (FrameFiles.of(frame, ["day"]) is not None) == reads


def test_days_of_which_nothing_is_known_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table({"day": pa.array(OLD).cast(pa.date32())})
    parquet.write_table(table, tmp_path / "1.parquet")
    asked = spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(tmp_path))
    with rebasing(spark, "CORRECTED"):
        assert FrameFiles.of(asked, ["day"]) is None
    parquet.write_table(table[1:], tmp_path / "1.parquet", write_statistics=False)
    with rebasing(spark, "LEGACY"):
        assert FrameFiles.of(spark.read.parquet(str(tmp_path)), ["day"]) is None


@contextmanager
def rebasing(spark: SparkSession, mode: str) -> Iterator[None]:
    """Let Spark convert old days of files, refuse them, or read them as they are."""
    setting = "spark.sql.parquet.datetimeRebaseModeInRead"
    spark.conf.set(setting, mode)
    try:
        yield
    finally:
        spark.conf.unset(setting)


def test_columns_that_spark_finds_by_number_or_case_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"x": [1], "y": [2], "Y": [3]}), tmp_path / "1.parquet")
    frame = spark.read.schema("x long, y long").parquet(str(tmp_path))
    assert FrameFiles.of(frame, ["x"]) is not None
    assert FrameFiles.of(frame, ["y"]) is None
    setting = "spark.sql.parquet.fieldId.read.enabled"
    spark.conf.set(setting, "true")
    try:
        assert FrameFiles.of(frame, ["x"]) is None
    finally:
        spark.conf.unset(setting)


def test_rows_of_equal_keys_come_to_one_task(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.parquet(str(folder)).select("key", "x")

    def keys(batches: Any) -> Any:
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        if tables:
            found = pa.concat_tables(tables).group_by("key").aggregate([("x", "count")])
            yield from found.rename_columns(["key", "rows"]).to_batches()

    for way in (mock.patch.object(FrameFiles, "of", FrameFiles.of), usual_way()):
        with way:
            found = run_by_keys(frame, ("key",), keys, "key int, rows long").collect()
        assert len({row[0] for row in found}) == len(found) == 9
        assert sum(row[1] for row in found) == 2 * COUNT
