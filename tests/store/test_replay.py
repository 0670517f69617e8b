"""Replaying only where a match can be gives the rows of a full replay, with any set of indexes."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import numbered, same_rows, supported
from tests.store.small_store import small_parts

import cepheid
from cepheid.runtimes.local import run_table
from cepheid.runtimes.store import measure_store
from cepheid.store.event_store import EventStore
from cepheid.testing.query_strategies import Case, cases
from cepheid.testing.strategies import Event, streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

SECOND = 1_000_000


@st.composite
def long_cases(draw: st.DrawFn) -> Case:
    """Draw a case whose stream has more events, in several stretches."""
    case = draw(cases(events_max=5))
    events: list[Event] = list(case.events)
    for _ in range(draw(st.integers(1, 3))):
        gap = draw(st.sampled_from([0, 1, 3, 8, 20]))
        begin = (events[-1]["ts"] if events else 0) + gap * SECOND  # type: ignore[operator]  # times
        more = draw(streams(case.schema, events_max=5))
        base = more[0]["ts"] if more else 0
        events += [{**e, "ts": e["ts"] - base + begin} for e in more]  # type: ignore[operator]  # as above
    return Case(case.query, case.schema, events)


def filled(folder: str, table: pa.Table, pieces: int, indexes: Mapping[str, bool]) -> EventStore:
    """Return a store of events in some segments; half of the indexes come before the events."""
    store = EventStore(folder)
    size = max(1, -(-len(table) // pieces))
    for at in range(0, len(table), size):
        store.append(table.slice(at, size))
        if at == 0:
            for name in indexes:
                store.index(name)
            joined = [name for name in ("key", "type", "volume", "zone") if name in indexes]
            if len(joined) > 1:
                store.index(*joined)
    return store


RANDOM = st.sampled_from(["index", "auto"])


def check_case(case: Case, pieces: int, chosen: set[str], method: str) -> None:
    assume(case.events)
    table = numbered(case.events)
    compiled = cepheid.query(case.query, schema=table.schema)
    assume(supported(compiled))
    expected = run_table(compiled.plan, table).to_pylist()
    indexes = {name: True for name in sorted(chosen) if name in table.column_names}
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = filled(folder, table, pieces, indexes)
        found = compiled.run(store, strategy=method).to_pylist()
    assert same_rows(found, expected) or repr(found) == repr(expected)


CHOSEN = st.sets(st.sampled_from(["type", "price", "volume", "key", "zone", "number"]))


@pytest.mark.slow
@given(long_cases(), st.integers(1, 3), CHOSEN, RANDOM)
def test_many_random_queries_give_the_same_rows(
    case: Case, pieces: int, chosen: set[str], method: str
) -> None:
    check_case(case, pieces, chosen, method)


@pytest.mark.filterwarnings("ignore:no event has the type")  # a random stream may lack one
@settings(max_examples=min(settings().max_examples, 60))  # each writes a store
@given(
    case=long_cases(),
    pieces=st.integers(1, 3),
    chosen=CHOSEN,
    method=RANDOM,
)
def test_random_queries_give_the_same_rows_from_index_and_replay(
    case: Case, pieces: int, chosen: set[str], method: str
) -> None:
    check_case(case, pieces, chosen, method)


WINDOWS = [
    "WITHIN 5 s SLIDE 5 s",
    "WITHIN 5 s SLIDE 2 s",
    "WITHIN 5 s",
    "WITHIN 5 s EMIT ON EXPIRY",
    "WITHIN 4 EVENTS SLIDE 2 EVENTS",
    "",
]
PATTERNS = [
    "SEQ(A a, B b)",
    "SEQ(A a, B b+, A c)",
    "SEQ(A a, NOT B n, A b)",
    "SEQ(NOT B n, A a)",
    "SEQ(A a, NOT B n)",
    "A a OR B b",
    "SEQ((A a OR B b), A c)",
    "(SEQ(A a+, B b))+",
    "SEQ(A a{2}, B b*)",
]


SEMANTICS = ["any", "next", "contiguous"]
COMBINATIONS = [
    pytest.param(
        pattern,
        window,
        semantics,
        # One semantics each in the quick run, all in turn.
        marks=[] if (n + m + k) % 3 == 0 else [pytest.mark.slow],
    )
    for n, pattern in enumerate(PATTERNS)
    for m, window in enumerate(WINDOWS)
    for k, semantics in enumerate(SEMANTICS)
]


@pytest.mark.parametrize(("pattern", "window", "semantics"), COMBINATIONS)
def test_sparse_candidates_in_a_long_stream(
    tmp_path: Path, pattern: str, window: str, semantics: str
) -> None:
    if not window and pattern == "(SEQ(A a+, B b))+":
        window = "WITHIN 9 s SLIDE 9 s"
    types = ["A", "B", "A", "A", "B"] * 40
    values = [5 if n % 37 in (3, 4) else n % 3 for n in range(200)]
    times = list(itertools.accumulate([0, 1, 1, 2, 0] * 40))
    columns: dict[str, Any] = {
        "ts": pa.array([t * SECOND for t in times], pa.timestamp("us")),
        "type": types,
        "x": values,
    }
    table = pa.table(columns)
    where = "WHERE a.x > 4.5" + (
        " AND b.x > 1" if " b" in pattern.replace("NOT B n, A b", "") else ""
    )
    text = f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics} {where} {window}"
    query = cepheid.query(text, schema=table.schema)
    expected = query.run(table)
    with small_parts(segment=60, group=8, block=4):
        store = EventStore(tmp_path)
        store.append(table)
        light = measure_store(query, store, "index")
        store.index("x")
        store.index("type")
        exact = measure_store(query, store, "index")
        for run in (light, exact):
            assert run.table == expected
        if "OR" not in pattern and window.startswith("WITHIN 5 s"):
            assert exact.replay.cover is not None
            assert exact.effort.groups <= exact.replay.groups < exact.replay.total


def test_what_a_query_reads_is_explained(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    times = pa.array([n * SECOND for n in range(100_000)], pa.timestamp("us"))
    # Every block has larger and smaller values, so that its statistics alone tell nothing.
    values = [9.0 if n in (500, 70_000) else 20.0 * (n % 2) + 1.0 for n in range(100_000)]
    store.append(pa.table({"ts": times, "x": pa.array(values)}))
    store.index("x")
    query = cepheid.query("RETURN COUNT(*) PATTERN E WHERE E.x = 9 WITHIN 1 minute SLIDE 1 minute")
    assert query.explain(store=store).splitlines() == [
        "store  replay of intervals",
        "  because every match has E (x = 9.0)",
        "  intervals  2",
        "  row groups  estimated 2, planned 2 of 25",
    ]
    told = query.explain(store=store, analyze=True).splitlines()
    assert told[-1].startswith("  read  2 row groups")
    assert "; 2 index entries, " in told[-1]
    other = cepheid.query(
        "RETURN COUNT(*) PATTERN E WHERE E.x > 0.5 WITHIN 1 minute SLIDE 1 minute"
    )
    assert other.explain(store=store).startswith("store  full replay\n  because E (x > 0.5) would")
    free = cepheid.query("RETURN COUNT(*) PATTERN E WITHIN 1 minute SLIDE 1 minute")
    assert "no variable that every match binds" in free.explain(store=store)
    with pytest.raises(ValueError, match="strategy is one of auto, index, replay"):
        query.run(store, strategy="guess")


def test_matches_of_a_store_are_listed_as_they_are_read(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"]}))
    query = cepheid.query("RETURN MATCHES PATTERN SEQ(A, B)")
    assert query.matches(store).read_all() == query.run(store)
    with pytest.raises(ValueError, match="lists no matches"):
        cepheid.query("RETURN COUNT(*) PATTERN A").matches(store)


def test_tie_breakers_order_events_of_a_store(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": [1, 1], "type": ["B", "A"], "seq": [2, 1]}))
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) TIES arrival"
    assert cepheid.query(text).run(store).num_rows == 0
    assert cepheid.query(text, tiebreak=["seq"]).run(store).num_rows == 1


@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, B b)", "SEQ(A a, B x?, A y, B b)", "SEQ(A a, A z+, B b)"]
)
def test_contiguous_symbols_have_their_distance(tmp_path: Path, pattern: str) -> None:
    types = ["A", "B", "A", "A", "B"] * 40
    values = [5 if n % 37 in (3, 4) or n % 41 == 7 else n % 3 for n in range(200)]
    columns: dict[str, Any] = {
        "ts": pa.array([n // 2 * SECOND for n in range(200)], pa.timestamp("us")),
        "type": types,
        "x": values,
    }
    table = pa.table(columns)
    text = f"""RETURN COUNT(*) PATTERN {pattern} SEMANTICS contiguous WHERE a.x > 4 AND b.x > 4
        WITHIN 30 s SLIDE 10 s TIES arrival"""
    query = cepheid.query(text, schema=table.schema)
    with small_parts(segment=60, group=8, block=4):
        store = EventStore(tmp_path)
        store.append(table)
        store.index("x")
        run = measure_store(query, store, "index")
    assert run.table == query.run(table)
    apart = measure_store(cepheid.query(text.replace("contiguous", "any")), store, "index")
    assert run.effort.groups <= apart.effort.groups
