"""Situations over a store: the rows of a table, and nothing is read where none can be."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.store.small_store import small_parts

import cepheid
from cepheid.runtimes.store import measure_store

CONDITIONS = ("x > 3", "x > 8", "x < 0", "name = 'b'", "name = 'z'", "x BETWEEN 2 AND 4", "x <> 1")
TEXTS = (
    "DEFINE A AS {0}, B AS {1} PATTERN A before;meets;overlaps;contains B WITHIN 9 us",
    "DEFINE A AS {0}, B AS {1} SITUATIONS A, B",
    "DEFINE A AS {0} AND x > 0, B AS {1} SITUATIONS A",
    "WHERE {0} DEFINE A AS x > 1, B AS {1} PATTERN A before;overlapped by;after B",
)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=20),
    st.sampled_from(TEXTS),
    st.sampled_from(CONDITIONS),
    st.sampled_from(CONDITIONS),
    st.sampled_from(["auto", "index", "replay"]),
)
def test_the_rows_are_those_of_a_table(
    values: list[tuple[int, str]], text: str, first: str, second: str, method: str
) -> None:
    numbers, names = zip(*values, strict=True)
    table = pa.table({"ts": list(range(len(values))), "x": list(numbers), "name": list(names)})
    query = cepheid.query(text.format(first, second))
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = cepheid.EventStore(folder)
        store.append(table)
        store.index("x")
        found = query.run(store, strategy=method)
    assert found.to_pylist() == query.run(table).to_pylist()


def filled(folder: Path) -> cepheid.EventStore:
    store = cepheid.EventStore(folder)
    n = np.arange(20_000)
    columns: dict[str, Any] = {"ts": n, "x": n % 100, "odd": n % 2 * 2}
    store.append(pa.table(columns))
    return store


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("DEFINE A AS x > 50, B AS x > 200 PATTERN A before B WITHIN 9 us", False),
        ("WHERE x > 200 DEFINE A AS odd = 2, B AS odd = 0 PATTERN A before B WITHIN 9 us", False),
        ("DEFINE A AS x > 50, B AS x > 200 SITUATIONS B", False),
        ("DEFINE A AS x > 50, B AS x > 200 SITUATIONS A, B", True),
        ("DEFINE A AS x > 50, B AS x > 98 PATTERN A before B WITHIN 9 us", True),
        ("DEFINE A AS x > 200 OR x < 5, B AS x > 98 PATTERN A before B WITHIN 9 us", True),
    ],
)
def test_nothing_is_read_where_no_event_fits(tmp_path: Path, text: str, reads: bool) -> None:  # noqa: FBT001  # a case
    store, query = filled(tmp_path), cepheid.query(text)
    run = measure_store(query, store)
    assert (run.effort.groups > 0) is reads
    assert run.table.equals(query.run(store.scan().read_all()))
    assert ("no event fits" in query.explain(store=store)) is not reads


def test_a_secondary_index_tells_too(tmp_path: Path) -> None:
    store = filled(tmp_path)
    query = cepheid.query("DEFINE A AS x > 50, B AS odd = 1 PATTERN A before B WITHIN 9 us")
    assert measure_store(query, store, "index").effort.groups > 0
    store.index("odd")
    run = measure_store(query, store, "index")
    assert (run.effort.groups, len(run.table)) == (0, 0)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_nothing_is_read_on_spark_either(spark: SparkSession, tmp_path: Path) -> None:
    query = cepheid.query("DEFINE A AS x > 50, B AS x > 200 SITUATIONS B")
    assert query.run(filled(tmp_path), spark=spark).toArrow().num_rows == 0
