"""Replay intervals are as short as conditions on times allow, and the rows stay the same."""

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
from tests.engine.comparison import same_rows
from tests.store.small_store import small_parts

import cepheid
from cepheid.patterns.time_limits import FIRST, LAST, reach_of_symbols
from cepheid.runtimes.store import measure_store
from cepheid.store.shortening import bridged
from cepheid.store.snapshot import Cover

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

PATTERNS = {
    "SEQ(A a, B b)": "ab",
    "SEQ(A a+, B b)": "ab",
    "SEQ(A a, B b?, C c)": "abc",
    "SEQ(A a, B b+, C c)": "abc",
    "SEQ(A a, NOT C n, B b)": "ab",
    "SEQ(NOT C n, A a, B b)": "ab",
    "SEQ(A a, B b, NOT C n)": "ab",
    "SEQ(A a, NOT C n WITHIN 2 us, B b)": "ab",
    "SEQ(NOT C n WITHIN 3 us, A a, B b)": "ab",
    "SEQ(A a, B b, NOT C n WITHIN 3 us)": "ab",
    "SEQ((A a OR B b), C c)": "abc",
    "(SEQ(A a+, B b))+": "ab",
    "A a{1,3}": "a",
    "SEQ(A a, B b, A f)": "abf",
}
CONDITIONS = [
    "{1}.ts - {0}.ts < {2}",
    "{1}.ts <= {0}.ts + {2}",
    "{2} >= {1}.ts - {0}.ts",
    "{1}.ts - {0}.ts >= {2}",
    "{1}.ts - {0}.ts = {2}",
    "NEXT({0}).ts - {0}.ts < {2}",
    "NEXT({0}).ts >= {0}.ts + {2}",
    "LAST({1}).ts - FIRST({0}).ts < {2}",
    "LAST({1}).ts - {0}.ts <= {2}",
    "{1}.ts - FIRST({0}).ts > {2}",
    "ABS(LAST({1}).ts - FIRST({0}).ts) < {2}",
    "{1}.ts - {0}.ts < {2}.5",
]
WINDOWS = [
    "WITHIN 12 us SLIDE 12 us",
    "WITHIN 12 us SLIDE 5 us",
    "WITHIN 9 us",
    "WITHIN 9 us EMIT ON EXPIRY",
    "",
]
SEMANTICS = ["any", "next", "contiguous"]
TIES = ["strict", "arrival"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query whose conditions bound times, and ask for large values."""
    pattern = draw(st.sampled_from(sorted(PATTERNS)))
    names = PATTERNS[pattern]
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(names) - 1))
        later = draw(st.integers(place, len(names) - 1))
        text = draw(st.sampled_from(CONDITIONS))
        parts.append(text.format(names[place], names[later], draw(st.integers(0, 8))))
    large = draw(st.sets(st.sampled_from(names), min_size=1))
    parts += [f"{name}.x > 3" for name in sorted(large)]
    window, ties = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(TIES))
    semantics = draw(st.sampled_from(SEMANTICS))
    return (
        f"RETURN COUNT(*), MIN(a.x) PATTERN {pattern} SEMANTICS {semantics} "
        f"WHERE {' AND '.join(parts)} {window} TIES {ties}"
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw events of three types, with gaps of several lengths and few large values."""
    row = st.tuples(
        st.sampled_from([0, 1, 1, 2, 4, 11]), st.sampled_from("ABC"), st.sampled_from([1, 1, 5])
    )
    rows = draw(st.lists(row, min_size=1, max_size=40))
    gaps, types, values = zip(*rows, strict=True)
    columns: dict[str, Any] = {"ts": np.cumsum(gaps), "type": list(types), "x": list(values)}
    return pa.table(columns)


def compiled(text: str, table: pa.Table) -> Any:
    """Compile a query; drop those that the language does not have."""
    try:
        return cepheid.query(text, schema=table.schema)
    except cepheid.CepheidError:
        assume(False)  # Hypothesis has no other form
        raise


def rows_of(query: Any, events: Any, **options: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types without events
        found: list[dict[str, Any]] = query.run(events, **options).to_pylist()
    return found


@settings(max_examples=max(settings().max_examples, 40))
@given(queries(), tables(), st.sampled_from(["index", "auto"]), st.booleans(), st.integers(1, 3))
def test_random_conditions_on_times_give_the_same_rows(
    text: str,
    table: pa.Table,
    method: str,
    indexed: bool,  # noqa: FBT001  # drawn
    pieces: int,
) -> None:
    query = compiled(text, table)
    with small_parts(segment=20, group=2, block=1), tempfile.TemporaryDirectory() as folder:
        store = cepheid.EventStore(folder)
        size = -(-len(table) // pieces)
        for at in range(0, len(table), size):
            store.append(table.slice(at, size))
        if indexed:
            store.index("x")
            store.index("type")
        found = rows_of(query, store, strategy=method)
    assert same_rows(found, rows_of(query, table))


@settings(max_examples=max(settings().max_examples, 40))
@given(queries(), tables())
def test_no_match_reaches_further_than_its_limits(text: str, table: pa.Table) -> None:
    names = PATTERNS[text.partition("PATTERN ")[2].partition(" SEMANTICS")[0]]
    query = compiled(text, table)
    listed = compiled(text.replace("COUNT(*), MIN(a.x)", "MATCHES"), table)
    required = [[name] for name in names if f"{name}?" not in text and "OR" not in text]
    assume(required)
    reach = reach_of_symbols(query.plan, required)
    for match in rows_of(listed, table):
        times = [event["ts"] for event in match["events"]]
        assert reach.possible
        for number, (name,) in enumerate(required):
            own = [event["ts"] for event in match["events"] if event["variable"] == name]
            for event, time in ((2 * number + 2, own[0]), (2 * number + 3, own[-1])):
                for end, other in ((FIRST, times[0]), (LAST, times[-1])):
                    least, most = reach.between(end, event)
                    assert least <= time - other <= most


def filled(folder: Path) -> tuple[cepheid.EventStore, pa.Table]:
    """Fill a store with 60,000 events, a second apart; one in 20,000 has a large value."""
    number = np.arange(60_000)
    columns: dict[str, Any] = {
        "ts": pa.array(number * 1_000_000).view(pa.timestamp("us")),
        "type": np.where(number % 2 == 0, "A", "B"),
        "x": np.where(number % 20_000 == 1_000, 9.0, 1.0 + number % 5),
    }
    table = pa.table(columns)
    store = cepheid.EventStore(folder)
    store.append(table)
    store.index("x")
    return store, table


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "SEQ(A a, B b) WHERE a.x > 8 AND b.ts - a.ts < 10 seconds WITHIN 4 hours SLIDE 4 hours",
            "nothing before a and less than 10 seconds after a: "
            "`NEXT(b).ts - a.ts < 10 seconds` at 1:57",
        ),
        (
            "SEQ(B a, A b) WHERE b.x > 8 AND b.ts <= a.ts + 5 seconds WITHIN 4 hours SLIDE 4 hours",
            "at most 5 seconds before b and nothing after b: "
            "`NEXT(b).ts <= a.ts + 5 seconds` at 1:57",
        ),
        (
            "SEQ(A a, B b, A c) WHERE b.x < 2 AND a.x > 8 AND c.ts - FIRST(a).ts < 9 seconds "
            "WITHIN 10 minutes SLIDE 10 minutes",
            "nothing before a and less than 9 seconds after a: "
            "`c.ts - FIRST(a).ts < 9 seconds` at 1:74",
        ),
        (
            "SEQ(A a, B b) SEMANTICS contiguous WHERE a.x > 8 WITHIN 4 hours SLIDE 4 hours "
            "TIES arrival",
            "at most 0 events before a, 1 after it: adjacent",
        ),
    ],
)
def test_intervals_are_shorter_than_windows(tmp_path: Path, text: str, told: str) -> None:
    store, table = filled(tmp_path)
    query = cepheid.query(f"RETURN COUNT(*) PATTERN {text}", schema=table.schema)
    run = measure_store(query, store, "index")
    assert run.table == query.run(table)
    assert len(run.table)
    assert run.replay.cover is not None
    longest = (run.replay.cover.ends - run.replay.cover.begins).max()
    # Positions are known by blocks, of up to 1,024 events.
    assert longest <= (2_048_000_000 if "contiguous" in text else 10_000_001)
    assert run.effort.groups <= 6 < 15
    assert told in run.replay.bounds
    assert f"  shortened  {told}" in query.explain(store=store).splitlines()


def test_conditions_that_exclude_each_other_leave_nothing_to_read(tmp_path: Path) -> None:
    store, table = filled(tmp_path)
    text = """RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE a.x > 8
        AND b.ts - a.ts < 3 seconds AND b.ts - a.ts > 5 seconds WITHIN 4 hours SLIDE 4 hours"""
    run = measure_store(cepheid.query(text, schema=table.schema), store, "index")
    assert (run.effort.groups, len(run.table)) == (0, 0)


def test_events_around_a_gap_are_no_neighbours(tmp_path: Path) -> None:
    rows = [(3, "A", 5), (4, "B", 5), (12, "A", 5), (14, "C", 0), (15, "C", 0), (18, "B", 5)]
    rows += [(26, "A", 5), (27, "B", 5)]
    times, types, values = zip(*rows, strict=True)
    table = pa.table({"ts": list(times), "type": list(types), "x": list(values)})
    text = """RETURN COUNT(*) PATTERN SEQ(A a, B b) SEMANTICS contiguous WHERE a.x > 4 AND b.x > 4
        WITHIN 10 us SLIDE 1 us TIES arrival"""
    query = cepheid.query(text, schema=table.schema)
    with small_parts(segment=100, group=1, block=1):
        store = cepheid.EventStore(tmp_path)
        store.append(table)
        store.index("x")
        assert query.run(store, strategy="index") == query.run(table)


def test_short_gaps_are_bridged() -> None:
    cover = Cover(np.array([0, 10, 30]), np.array([5, 20, 40]))
    assert [list(part) for part in bridged(cover, 6)] == [[0, 30], [20, 40]]
    assert [list(part) for part in bridged(cover, 5)] == [[0, 10, 30], [5, 20, 40]]
