"""SELECT over stores: whatever is looked up or skipped, the rows are as defined."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.select.cases import aggregations, filters, joins, plain, rows, table_of
from tests.store.small_store import small_parts

import cepheid
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]
METHODS = ("auto", "index", "replay")
INDEXES = ((), ("x",), ("k", "x"), ("y", "g", "k"))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def stored(events: Events, cuts: list[int], indexes: tuple[str, ...]) -> cepheid.EventStore:
    """Return a store of events that were appended in several parts, the late one last."""
    store = cepheid.EventStore(tempfile.mkdtemp())
    parts = np.array_split(np.arange(len(events)), sorted(cut % (len(events) + 1) for cut in cuts))
    for part in parts if len(events) else [np.arange(0)]:
        store.append(table_of([events[i] for i in part]))
    for name in indexes:
        store.index(name)
    return store


@given(
    st.one_of(filters(), aggregations()),
    rows(),
    st.lists(st.integers(0, 14), max_size=2),
    st.sampled_from(INDEXES),
    st.sampled_from(METHODS),
)
def test_queries_over_a_store_are_as_defined(
    text: str, events: Events, cuts: list[int], indexes: tuple[str, ...], method: str
) -> None:
    with small_parts():
        found = cepheid.query(text).run(stored(events, cuts, indexes), strategy=method)
        assert plain(found.to_pylist()) == plain(evaluate_select(text, {"s": events}))


@given(joins(), rows(8), rows(8), st.sampled_from(INDEXES), st.sampled_from(METHODS), st.booleans())
def test_joins_with_a_store_are_as_defined(
    text: str,
    events: Events,
    others: Events,
    indexes: tuple[str, ...],
    method: str,
    both: bool,  # noqa: FBT001  # drawn
) -> None:
    with small_parts():
        streams: dict[str, Any] = {"s": stored(events, [3], indexes), "r": table_of(others)}
        streams["r"] = stored(others, [2], indexes) if both else streams["r"]
        found = cepheid.query(text).run(streams, strategy=method)
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(found.to_pylist()) == plain(expected)


@pytest.fixture(scope="module")
def history() -> cepheid.EventStore:
    """Return a store of ten thousand seconds in row groups of a thousand or less."""
    store = cepheid.EventStore(tempfile.mkdtemp())
    n = np.arange(10_000)
    load = np.where(n == 7_777, 99.0, n % 7)
    with small_parts(segment=100_000, group=1_000, block=100):
        store.append(
            pa.table(
                {"ts": pa.array(n, pa.timestamp("s")), "load": pa.array(load), "k": pa.array(n % 3)}
            )
        )
        store.index("k")
    return store


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "SELECT ts, load FROM s WHERE load > 50",
            [
                "store  filter by a replay",
                "  s  row groups  planned 1 of ",
                "    because least and largest values of blocks are compared: load > 50.0",
            ],
        ),
        (
            "SELECT AVG(load) FROM s WINDOW 1000 seconds",
            ["store  windowed aggregation from the index", "  because 0 of "],
        ),
        (
            "SELECT COUNT(*) FROM s WHERE ts < '1970-01-01 01:00:00' WINDOW 10 minutes",
            ["store  windowed aggregation from the index"],
        ),
        ("SELECT SUM(load), COUNT(*) FROM s", ["store  windowed aggregation from the index"]),
        (
            "SELECT AVG(load) FROM s GROUP BY k WINDOW 1000 seconds",
            [
                "store  windowed aggregation by a replay",
                "  and not from the index: blocks know no groups",
            ],
        ),
        (
            "SELECT a.ts FROM s a JOIN s b ON a.k = b.k AND b.load > 50 WINDOW 10 seconds",
            ["store  windowed join by a replay", "  a  row groups  planned 1 of ", "    because"],
        ),
    ],
)
def test_explain_says_what_is_read(
    history: cepheid.EventStore, text: str, lines: list[str]
) -> None:
    found = cepheid.query(text).explain(store=history, analyze=True).splitlines()
    for line, expected in zip(found, lines, strict=False):
        assert line.startswith(expected)
    assert "row groups" in found[-1]


def test_what_is_skipped_does_not_change_the_result(history: cepheid.EventStore) -> None:
    for text in (
        "SELECT ts, load FROM s WHERE load > 50",
        "SELECT COUNT(*), AVG(load) FROM s WHERE ts >= '1970-01-01 01:00:00' WINDOW 7 minutes",
        "SELECT a.ts, b.ts AS t FROM s a JOIN s b ON a.k = b.k AND b.load > 50 WINDOW 10 seconds",
        "SELECT COUNT(*) FROM s WHERE k = 1 AND ts BETWEEN '1970-01-01' AND '1970-01-01 00:20:00'",
        "SELECT MIN(ts), MAX(load), COUNT(k) FROM s",
    ):
        table = history.scan().read_all()
        assert cepheid.query(text).run(history).equals(cepheid.query(text).run(table)), text


def test_there_is_no_other_strategy(history: cepheid.EventStore) -> None:
    with pytest.raises(ValueError, match="strategy is one of auto, index, replay"):
        cepheid.query("SELECT * FROM s").run(history, strategy="guess")
