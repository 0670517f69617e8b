"""Situations are looked up where their conditions can hold, and the rows stay the same."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.store.small_store import small_parts

import cepheid
from cepheid.kinds.situation import from_store
from cepheid.runtimes.store import measure_store

CONDITIONS = [
    "x > 3",
    "x > 8",
    "x < 1",
    "name = 'b'",
    "x BETWEEN 2 AND 4",
    "x <> 1",
    "x = 9 AND name = 'a'",
    "y > 3 OR x = 5",
    "x + y < 5",
    "x * 1 = 1",
    "x > 3 AND AVG(x) > 4",
    "x > 2 AND x > PREV(x)",
    "x > 5 AND x >= FIRST(x)",
    "x > 5 AND COUNT(*) < 4",
    "x > 3 UNTIL x < 1",
    "x > 3 UNTIL name = 'c'",
]
DURATIONS = ["", "AT LEAST 3 us", "AT MOST 4 us", "AT LEAST 2 EVENTS", "AT LEAST 2 us AT MOST 9 us"]
RELATIONS = [
    "before",
    "meets",
    "overlaps",
    "before;meets;overlaps;contains",
    "during;starts;finishes;equals",
    "after;met by",
    "intersects",
]
WINDOWS = ["WITHIN 3 us", "WITHIN 12 us", "DETECTED WITHIN 5 us", "DETECTED WITHIN 12 us", ""]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw two definitions, in partitions or not, related or listed."""
    where = draw(st.sampled_from(["", "", "WHERE y > 1", "WHERE x <> 7"]))
    keys = draw(st.sampled_from(["", "PARTITION BY name", "PARTITION BY k"]))
    defined = []
    for name in "AB":
        condition = draw(st.sampled_from(CONDITIONS))
        defined.append(f"{name} AS {condition} {draw(st.sampled_from(DURATIONS))}")
    listed = ["SITUATIONS A", "SITUATIONS A, B"]
    related = [f"PATTERN A {relation} B {window}" for relation in RELATIONS for window in WINDOWS]
    asked = draw(st.sampled_from(listed) | st.sampled_from(related))
    return f"{where} {keys} DEFINE {', '.join(defined)} {asked}"


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw events of which few have other values than the rest."""
    row = st.tuples(
        st.sampled_from([0, 1, 1, 2, 7]),
        st.sampled_from([1] * 10) | st.integers(0, 9),
        st.integers(0, 4),
        st.sampled_from("aaaabc"),
        st.sampled_from([0, 1, 1, 2, None]),
    )
    rows = draw(st.lists(row, min_size=1, max_size=60))
    gaps, x, y, names, keys = (list(column) for column in zip(*rows, strict=True))
    columns: dict[str, Any] = {"ts": np.cumsum(gaps), "x": x, "y": y, "name": names}
    return pa.table(columns | {"k": pa.array(keys, pa.int64())})


@settings(max_examples=max(settings().max_examples, 60))
@given(queries(), tables(), st.booleans(), st.integers(1, 3), st.sampled_from([2, 4]))
def test_random_situations_are_those_of_a_table(
    text: str,
    table: pa.Table,
    indexed: bool,  # noqa: FBT001  # drawn
    pieces: int,
    group: int,
) -> None:
    try:
        query = cepheid.query(text, schema=table.schema)
    except cepheid.CepheidError:
        assume(False)  # Hypothesis has no other form
        raise
    with (
        small_parts(segment=20, group=group, block=group // 2),
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        store = cepheid.EventStore(folder)
        size = -(-len(table) // pieces)
        for at in range(0, len(table), size):
            store.append(table.slice(at, size))
        if indexed:
            store.index("x")
        found = query.run(store, strategy="index").to_pylist()
        assert found == query.run(table).to_pylist()


def filled(folder: Path) -> tuple[cepheid.EventStore, pa.Table]:
    """Fill a store with 80,000 events of 20 machines; one is hot twice."""
    n = np.arange(80_000)
    hot = (n % 20 == 7) & ((n // 1_000 == 10) | (n // 1_000 == 52))
    columns: dict[str, Any] = {
        "ts": pa.array(n * 1_000_000).view(pa.timestamp("us")),
        "machine": n % 20,
        "load": np.where(hot, 130.0, 50.0 + n % 7),
        "speed": np.where(n // 200 % 2 == 0, 80.0, 20.0),
    }
    table = pa.table(columns)
    store = cepheid.EventStore(folder)
    store.append(table)
    return store, table


@pytest.mark.parametrize(
    ("text", "groups", "rows"),
    [
        ("DEFINE Hot AS load > 100 AT LEAST 1 minute SITUATIONS Hot", 3, 2),
        ("DEFINE Hot AS load > 100 UNTIL load < 51 SITUATIONS Hot", 3, 2),
        ("DEFINE Hot AS load > 100 AND AVG(load) > 100 SITUATIONS Hot", 3, 2),
        (
            "DEFINE Hot AS load > 100, Fast AS speed > 50 "
            "PATTERN Hot intersects Fast WITHIN 20 minutes",
            8,
            6,
        ),
        ("DEFINE Hot AS load > 100, Warm AS load > 110 PATTERN Hot equals Warm", 3, 2),
    ],
)
def test_row_groups_without_situations_are_not_read(
    tmp_path: Path, text: str, groups: int, rows: int
) -> None:
    store, table = filled(tmp_path)
    query = cepheid.query(f"PARTITION BY machine {text}", schema=table.schema)
    run = measure_store(query, store)
    assert run.table.equals(query.run(table))
    assert len(run.table) == rows
    assert run.effort.groups <= groups < run.replay.total == 20
    told = query.explain(store=store)
    assert "store  replay of intervals" in told
    assert "read on until all situations have ended" in told or "by WITHIN" in told


def test_situations_that_go_on_are_followed(tmp_path: Path) -> None:
    times = np.arange(3_000)
    columns: dict[str, Any] = {
        "ts": times,
        "machine": np.where(times % 1_500 == 10, 1, 2),
        "load": np.where(times == 10, 9, 1),
    }
    table = pa.table(columns)
    query = cepheid.query("PARTITION BY machine DEFINE Hot AS load > 5 SITUATIONS Hot")
    with small_parts(segment=3_000, group=10, block=5):
        store = cepheid.EventStore(tmp_path)
        store.append(table)
        found = query.run(store).to_pylist()
    assert found == [{"machine": 1, "situation": "Hot", "ts": 10, "te": 1_510}]
    assert found == query.run(table).to_pylist()


def test_situations_that_began_before_are_told_from_those_that_began_here(tmp_path: Path) -> None:
    # The partition 1 has been slow for long, and has no event just before the hot one.
    rows = [(0, 1, 1, 0), *((t, 2, 9, 0) for t in range(1, 200)), (200, 1, 1, 0), (201, 1, 1, 9)]
    rows += [(202, 1, 9, 0), *((t, 2, 9, 0) for t in range(203, 400))]
    times, keys, speeds, loads = zip(*rows, strict=True)
    columns = {"ts": list(times), "k": list(keys), "speed": list(speeds), "load": list(loads)}
    table = pa.table(columns)
    text = """PARTITION BY k DEFINE Slow AS speed + 0 < 5, Hot AS load > 5
        PATTERN Slow contains;finished by Hot WITHIN 10 us"""
    query = cepheid.query(text, schema=table.schema)
    for read_max in (0.0, 0.5, 9.0):
        with small_parts(segment=400, group=4, block=2), pytest.MonkeyPatch.context() as patched:
            patched.setattr(from_store, "READ_MAX", read_max)
            store = cepheid.EventStore(tmp_path / str(read_max))
            store.append(table)
            assert query.run(store, strategy="index").to_pylist() == []
    assert query.run(table).to_pylist() == []


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_tasks_of_spark_read_everything(spark: SparkSession, tmp_path: Path) -> None:
    store, table = filled(tmp_path)
    query = cepheid.query("PARTITION BY machine DEFINE Hot AS load > 100 SITUATIONS Hot")
    found = query.run(store, spark=spark).toArrow()
    assert found.num_rows == query.run(table).num_rows == 2
