"""Spark DataFrames of all kinds: keys, times, nesting, skew, and what goes wrong."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.runtime.cases import same

from cepheid.api import CompiledQuery, query
from cepheid.errors import BindError, UnsupportedError
from cepheid.runtimes.spark import batch
from cepheid.runtimes.spark.batch import project
from cepheid.runtimes.spark.key_spread import spread_keys, task_of
from cepheid.runtimes.spark.partition_profile import profile_partitions
from cepheid.spark import session
from cepheid.spark.failures import clear_error
from cepheid.spark.session import collect

pytestmark = pytest.mark.spark

STRATEGIES = ("key shuffle", "combine")


def events_of(count: int, *, keys: int = 5, seed: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)
    types = np.array(["A", "B", "C"])[random.integers(0, 3, count)]
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, 10 * count, count)), pa.timestamp("us")),
            "type": pa.array(types),
            "key": pa.array(random.integers(0, keys, count)),
            "sector": pa.array(random.integers(0, 2, count)),
            "x": pa.array(random.random(count)),
        }
    )


def frame_of(spark: SparkSession, events: pa.Table, partitions: int = 3) -> DataFrame:
    """Return events in partitions that are not ranges of time."""
    return spark.createDataFrame(events).repartition(partitions)


def check(spark: SparkSession, text: str, events: pa.Table, frame: DataFrame | None = None) -> None:
    """Compare all strategies with the local run."""
    q = query(text)
    expected = q.run(events).to_pylist()
    assert expected, "a test without rows shows nothing"
    there = frame_of(spark, events) if frame is None else frame
    for strategy in (None, *STRATEGIES):
        result = q.run(there, strategy=strategy).toArrow()
        assert same(result, expected), strategy


def test_an_empty_frame_gives_an_empty_result_with_its_columns(spark: SparkSession) -> None:
    empty = spark.createDataFrame(events_of(10)).where("ts is null")
    for text in (
        "RETURN COUNT(*) PATTERN A+",
        "RETURN key, COUNT(*), MIN(A.ts) PATTERN A+ GROUP-BY key WITHIN 1 minute SLIDE 1 minute",
    ):
        for strategy in STRATEGIES:
            result = query(text).run(empty, strategy=strategy)
            assert result.count() == 0
            assert "count" in result.columns
            kinds = dict(result.dtypes)
            assert kinds["count"] == "double"
            assert kinds.get("window_start", "timestamp") == "timestamp"
            assert kinds.get("min_A_ts", "timestamp") == "timestamp"
            assert kinds.get("key", "bigint") == "bigint"


KEYS: dict[str, list[Any]] = {
    "bigint": [1, 2, 2**40, None],
    "tinyint": [1, 2, -3, None],
    "string": ["a", "", "ü", None],
    "boolean": [True, False, True, None],
    "double": [0.0, -0.0, float("nan"), None],
    "float": [1.5, -0.0, 0.0, None],
    "date": [dt.date(2020, 1, 1), dt.date(1969, 1, 1), dt.date(2020, 1, 1), None],
    "timestamp": [dt.datetime(2020, 1, n, tzinfo=dt.UTC) for n in (1, 2, 3)] + [None],
    "timestamp_ntz": [dt.datetime(2020, 1, n) for n in (1, 2, 3)] + [None],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-2.00"), Decimal("1.50"), None],
}


def test_keys_of_any_type(spark: SparkSession) -> None:
    fields = [f"`{name}` {name}" for name in KEYS]
    rows = [
        (n, "A" if n % 3 else "B", *(values[n % len(values)] for values in KEYS.values()))
        for n in range(24)
    ]
    frame = spark.createDataFrame(rows, f"ts long, type string, {', '.join(fields)}")
    events = frame.toArrow()
    for name in KEYS:
        text = f"RETURN COUNT(*) PATTERN SEQ(A+, B) GROUP-BY `{name}`"
        expected = query(text).run(events).to_pylist()
        actual = query(text).run(frame, strategy="key shuffle").toArrow()
        assert expected, name
        assert same(actual, expected), name


def test_nested_columns_have_dotted_names(spark: SparkSession) -> None:
    rows = [(n, ("A", {"city": "p" if n % 2 else "q"}, float(n))) for n in range(8)]
    schema = "meta_ts long, e struct<type: string, place: struct<city: string>, x: double>"
    frame = spark.createDataFrame(rows, schema).selectExpr(
        "struct(meta_ts as ts) as meta", "e", "'A' as type"
    )
    q = query(
        "RETURN COUNT(*), SUM(A.`e.x`) AS s PATTERN A+ WHERE A.`e.x` > 1 GROUP-BY `e.place.city`",
        time="meta.ts",
    )
    expected = [
        {"e.place.city": "p", "count": 7.0, "s": 4 * (3.0 + 5.0 + 7.0)},
        {"e.place.city": "q", "count": 7.0, "s": 4 * (2.0 + 4.0 + 6.0)},
    ]
    for strategy in STRATEGIES:
        assert same(q.run(frame, strategy=strategy).toArrow(), expected)


@share(3)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "bigint", "int"])
def test_times_of_any_type(spark: SparkSession, kind: str) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 2 days SLIDE 1 day"
    day = 86_400_000_000 if kind in ("bigint",) else 1
    if kind == "int":
        text = text.replace("2 days", "2 microseconds").replace("1 day", "1 microsecond")
    rows = [(n * day, "AB"[n % 2]) for n in range(-3, 6)]
    frame = spark.createDataFrame(rows, "n long, type string")
    convert = {
        "timestamp": "timestamp_micros(n * 86400000000)",
        "timestamp_ntz": "cast(timestamp_micros(n * 86400000000) as timestamp_ntz)",
        "date": "date_from_unix_date(cast(n as int))",
        "bigint": "n",
        "int": "cast(n as int)",
    }
    frame = frame.selectExpr(f"{convert[kind]} as ts", "type")
    check(spark, text, frame.toArrow(), frame)


def test_groups_with_partitions_in_several_tasks(spark: SparkSession) -> None:
    events = events_of(400, keys=40)
    text = (
        "RETURN sector, COUNT(*), AVG(A.x), MAX(B.x) PATTERN SEQ(A, B) WHERE [key] GROUP-BY sector"
    )
    for window in (
        "",
        "WITHIN 1 milliseconds SLIDE 1 milliseconds",
        "WITHIN 6 EVENTS SLIDE 3 EVENTS",
    ):
        q = query(f"{text} {window}")
        result = q.run(frame_of(spark, events), strategy="key shuffle").toArrow()
        assert same(result, q.run(events).to_pylist()), window


def test_groups_of_numbers_beyond_doubles_and_exact_ones(spark: SparkSession) -> None:
    events = events_of(4500, keys=2)
    check(spark, "RETURN LOG2(COUNT(*)), AVG(A.x) PATTERN A+ WHERE [key]", events)
    exact = "RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] NUMBERS exact"
    check(spark, exact, events.slice(0, 300))


def test_windows_without_slide(spark: SparkSession) -> None:
    events = events_of(120, keys=4)
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY sector WITHIN 200 microseconds"
    result = query(text).run(frame_of(spark, events)).toArrow()
    assert same(result, query(text).run(events).to_pylist())


def test_contiguous_matches_are_broken_by_what_filters_would_drop(spark: SparkSession) -> None:
    events = events_of(200, keys=2)
    text = (
        "RETURN key, COUNT(*) PATTERN SEQ(A, B) SEMANTICS contiguous WHERE [key] AND A.x > 0.5 "
        "GROUP-BY key"
    )
    check(spark, text, events)


def with_a_heavy_key(count: int) -> pa.Table:
    """Return events of which three of four have one key."""
    events = events_of(count, keys=60)
    heavy = pa.array(np.where(np.arange(count) % 4, 7, events["key"].to_numpy()))
    return events.set_column(2, "key", heavy)


EDGES = "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key"
CUT = {
    "RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key": "by time",
    f"{EDGES} WITHIN 300 us SLIDE 100 us": "by time",
    f"{EDGES} WITHIN 300 us": "by time",
    "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE [key] AND A.x < B.x WITHIN 200 us": "by time",
    # Ranges would be shorter than what their tasks look back.
    f"{EDGES} WITHIN 20 ms SLIDE 20 ms": "by key",
    "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] AND A.x < B.x GROUP-BY key": "by key",
}


@pytest.mark.parametrize("text", CUT)
def test_one_heavy_key_is_not_left_to_one_task(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    events = with_a_heavy_key(3000)
    frame, q = frame_of(spark, events), query(text)
    plan = q.with_schema(frame.schema).plan
    assert spread_keys(project(frame, plan), plan, 4).is_uneven
    begun: list[str] = []
    for way in ("run_key_shuffle", "run_time_shuffle", "run_window_shuffle"):
        monkeypatch.setattr(batch, way, told(begun, way, getattr(batch, way)))
    result = q.run(frame).toArrow()
    assert same(result, q.run(events).to_pylist())
    assert (begun == ["run_key_shuffle"]) == (CUT[text] == "by key"), begun


def told(begun: list[str], name: str, run: Any) -> Any:
    """Note the name of a function when it is called."""

    def noting(*arguments: Any, **more: Any) -> Any:
        begun.append(name)
        return run(*arguments, **more)

    return noting


def test_keys_are_spread_over_tasks_by_their_events(spark: SparkSession) -> None:
    events = with_a_heavy_key(3000)
    frame = frame_of(spark, events)
    plan = query(f"{EDGES} WITHIN 1 ms SLIDE 1 ms").with_schema(frame.schema).plan
    projected = project(frame, plan)
    spread = spread_keys(projected, plan, 4)
    tasks = projected.select(task_of(projected, ("key",), spread), "key").collect()
    of_key: dict[int, set[int]] = {}
    sizes = [0] * 4
    for task, key in tasks:
        of_key.setdefault(key, set()).add(task)
        sizes[task] += 1
    assert all(len(found) == 1 for found in of_key.values()), "a key is in one task"
    # The heavy key has a task for itself, but for what has the same hash; others share the rest.
    assert max(sizes) == spread.ratio * sum(sizes) / 4
    others = sorted(sizes)[:3]
    assert max(others) < 1.5 * min(others)


def test_partitions_that_are_ranges_of_time_are_found(spark: SparkSession) -> None:
    q = query("RETURN COUNT(*) PATTERN SEQ(A, B)")
    rows = [(n, "AB"[n % 2]) for n in range(40)]
    shared = [(n // 2, "AB"[n % 2]) for n in range(38)]
    ranges = spark.createDataFrame(spark.sparkContext.parallelize(rows, 4), "ts long, type string")
    plan = q.with_schema(ranges.schema).plan
    found = profile_partitions(project(ranges, plan), plan, 2).ranges
    assert found is not None
    assert found.first == {0: 0, 1: 10, 2: 20, 3: 30}
    # 0..18 in pairs, cut after 9 and a half pairs: the time 9 is in both partitions.
    tied = spark.createDataFrame(spark.sparkContext.parallelize(shared, 2), "ts long, type string")
    assert profile_partitions(project(tied, plan), plan, 2).ranges is None
    arrival = query(f"{q.text} TIES arrival").with_schema(ranges.schema).plan
    assert profile_partitions(project(tied, arrival), arrival, 2).ranges is not None
    mixed = ranges.repartition(2)
    assert profile_partitions(project(mixed, plan), plan, 2).ranges is None


def test_local_predicates_and_projections_reach_catalyst(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.createDataFrame(events_of(100)).write.parquet(str(tmp_path / "events"))
    frame = spark.read.parquet(str(tmp_path / "events"))
    q = query("RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [key] AND a.x > 0.5 AND b.x <= 0.25")
    plan: Any = project(frame, q.with_schema(frame.schema).plan)
    shown = plan._jdf.queryExecution().executedPlan().toString()
    pushed = shown[shown.index("PushedFilters") :]
    assert "IsNotNull(key)" in pushed
    assert "EqualTo(type,A),GreaterThan(x,0.5)" in pushed
    assert "sector" not in shown
    contiguous = query(q.text.replace("WHERE", "SEMANTICS contiguous WHERE"))
    plan = project(frame, contiguous.with_schema(frame.schema).plan)
    assert "GreaterThan" not in plan._jdf.queryExecution().executedPlan().toString()


def test_mistakes_are_found_before_anything_runs(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events_of(5))
    with pytest.raises(BindError, match="has no attribute `y`"):
        query("RETURN SUM(A.y) PATTERN A").run(frame)
    partial = "RETURN MATCHES PATTERN SEQ(A a, NOT NEXT C, A b) WHERE [a.x]"
    with pytest.raises(UnsupportedError):
        query(partial).run(frame)
    trailing = query("RETURN COUNT(*) PATTERN A WITHIN 1 second")
    with pytest.raises(ValueError, match="moves with every event"):
        trailing.run(frame, strategy="combine")
    with pytest.raises(ValueError, match="reads files"):
        trailing.run(frame, strategy="scan slices")
    with pytest.raises(ValueError, match="strategy is one of combine, key shuffle, time shuffle"):
        trailing.run(frame, strategy="magic")
    whole = query("RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x")
    with pytest.raises(ValueError, match="the whole stream is one window"):
        whole.run(frame, strategy="time shuffle")
    with pytest.warns(UserWarning, match="one task runs the whole query"):
        whole.run(frame)


def test_what_a_task_says_is_one_message(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "A"), (None, "A")], "ts long, type string")
    q = query("RETURN COUNT(*) PATTERN A GROUP-BY type")
    result = q.run(frame, strategy="key shuffle")
    with pytest.raises(PySparkException) as caught:
        result.collect()
    text = str(caught.value)
    assert "error[E506]: the time column `ts` is NULL" in text
    assert len(text.splitlines()) < 12
    error = clear_error(caught.value)
    assert str(error).startswith("error[E506]: the time column `ts` is NULL in row ")
    assert "help: leave out events without a time" in str(error)
    assert "Spark failed: ValueError: x" in str(
        clear_error(RuntimeError("a\nValueError: x\n\tat y"))
    )
    with pytest.raises(type(error), match="E506"):
        collect(result, q.plan)


def test_a_task_that_dies_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(300)
    marker = str(tmp_path / "died")

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()  # noqa: PTH123
            os._exit(9)
        yield from batches

    frame = spark.createDataFrame(events).repartition(2)
    dying = frame.mapInArrow(die_once, frame.schema)
    q = query("RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key")
    result = q.run(dying, strategy="key shuffle").toArrow()
    assert Path(marker).exists()
    assert same(result, q.run(events).to_pylist())


def test_results_are_sorted_when_collected(spark: SparkSession) -> None:
    events = events_of(200)
    q: CompiledQuery = query(
        "RETURN key, COUNT(*) PATTERN A GROUP-BY key WITHIN 1 milliseconds SLIDE 1 milliseconds"
    )
    local = q.run(events)
    there = collect(q.run(frame_of(spark, events)), q.plan)
    assert there["key"].to_pylist() == local["key"].to_pylist()


def test_what_somebody_chose_for_java_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java does not start with two collectors, and takes the last size."""
    for name in session._JAVA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    ours = f"{session.BRIEF_JAVA} -Dx=1"
    assert session._without_chosen(ours) == ours
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss4m -XX:+UseStringDeduplication")
    assert session._without_chosen(ours) == ours
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xss4m -XX:+UseG1GC")
    assert session._without_chosen(ours) == "-XX:TieredStopAtLevel=1 -Dx=1"
    assert session._without_chosen(session.BATCH_JAVA) == ""
    assert session._without_chosen(session.LIGHT_JAVA) == session.LIGHT_JAVA
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:ReservedCodeCacheSize=1g")
    assert session._without_chosen(session.LIGHT_JAVA) == "-XX:TieredStopAtLevel=1"


def test_java_has_room_for_the_code_of_a_live_query() -> None:
    """A live query fills 50 MB in two minutes, and Java takes 48 with its first compiler alone."""
    for options in (session.LIGHT_JAVA, ""):
        command = ["java", *options.split(), "-XX:+PrintFlagsFinal", "-version"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(r"ReservedCodeCacheSize\s*=\s*(\d+)", told)
        assert found is not None
        assert int(found[1]) >= 200 << 20, options
