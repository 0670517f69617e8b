"""A workload over a store gives what it gives over the same events in a table."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_linear import SCHEMA
from tests.engine.test_workload import related_queries
from tests.runtime.cases import same
from tests.store.small_store import small_parts

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.testing.harness import stream
from cepheid.testing.strategies import streams

QUERIES = {
    "pairs": "RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key WITHIN 4 s SLIDE 2 s",
    "rises": "RETURN COUNT(*), MAX(A.price) PATTERN A+ WHERE A.price < NEXT(A).price",
    "later": "RETURN COUNT(*), MAX(A.price) PATTERN SEQ(B, A+) WHERE A.price < NEXT(A).price",
    "next": "RETURN COUNT(*) PATTERN SEQ(A, A) SEMANTICS contiguous TIES arrival WITHIN 3 s",
    "listed": "RETURN MATCHES PATTERN SEQ(A, B) WHERE [key] WITHIN 3 s SLIDE 3 s",
}
EVENTS = table_of(
    stream(
        "a1(key='p', price=1) a1(key='q', price=3) b2(key='p', price=9) a3(key='p', price=2) "
        "a3(key='q', price=4) b5(key='q', price=1) a9(key='p', price=8)"
    )
)


@pytest.mark.filterwarnings("ignore:no event has the type")  # a random stream may lack one
@settings(max_examples=25)
@given(related_queries(), streams(SCHEMA, events_max=9), st.integers(1, 4))
def test_random_workloads_give_the_rows_of_a_table(
    texts: list[str], events: list[Mapping[str, object]], size: int
) -> None:
    assume(events)
    table = table_of(events)
    together = cepheid.workload(texts)
    try:
        expected = together.run(table, separate=True)
    except UnsupportedError:
        assume(False)
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = cepheid.EventStore(folder)
        for offset in range(0, len(table), size):
            store.append(table.slice(offset, size))
        store.index("type")
        found = together.run(store, separate=True)
    assert found.keys() == expected.keys()
    for name, rows in found.items():
        assert same_rows(rows.to_pylist(), expected[name].to_pylist()), name


@pytest.mark.parametrize("tiebreak", [[], ["price"]])
def test_all_kinds_of_queries_and_forms(tmp_path: Path, tiebreak: list[str]) -> None:
    together = cepheid.workload(QUERIES, tiebreak=tiebreak)
    store = cepheid.EventStore(tmp_path)
    for offset in (4, 0):  # The first events come late.
        store.append(EVENTS.slice(offset, 4))
    separate = together.run(store, separate=True)
    for name, rows in together.run(EVENTS, separate=True).items():
        assert separate[name].equals(rows), name
        assert separate[name].equals(together[name].run(store)), name
    numbers = cepheid.workload({n: t for n, t in QUERIES.items() if n != "listed"})
    assert numbers.run(store).equals(numbers.run(EVENTS))


def test_a_store_without_events_gives_no_rows(tmp_path: Path) -> None:
    together = cepheid.workload(QUERIES)
    store = cepheid.EventStore(tmp_path)
    with pytest.raises(cepheid.DataError, match="E544"):
        together.run(store)
    store.append(EVENTS)
    store.drop_before("2040-01-01 00:00:00")
    expected = together.run(EVENTS.slice(0, 0), separate=True)
    for name, rows in together.run(store, separate=True).items():
        assert rows.to_pylist() == expected[name].to_pylist()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_workload_over_a_store_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    longer = QUERIES["pairs"].replace("SEQ(A, B)", "SEQ(A+, B)")
    together = cepheid.workload({"pairs": QUERIES["pairs"], "longer": longer})
    store = cepheid.EventStore(tmp_path)
    store.append(EVENTS)
    expected: pa.Table = together.run(EVENTS)
    assert same(together.run(store, spark=spark).toArrow(), expected.to_pylist())
