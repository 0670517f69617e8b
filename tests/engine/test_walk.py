"""A walk over the events gives the matches of the search backwards, in the same order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.api import query
from cepheid.kernels.neighbours import find_previous
from cepheid.kinds.trend import local
from cepheid.kinds.trend.listing import walk
from cepheid.kinds.trend.listing.enumerate import MATCHES_ROOM
from cepheid.kinds.trend.windows import match_windows
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table

PATTERNS = {
    "SEQ(A, B, C)": "A.x <= B.x",
    "SEQ(A, B+)": "B.x < NEXT(B).x",
    "A+": "A.x < NEXT(A).x AND A.x + 2 >= NEXT(A).x",
    "(SEQ(A, B?))+": "A.x <> B.x",
    "SEQ(A a, A b+, A c)": "a.x <= b.x AND b.x > NEXT(b).x AND b.x < c.x",
    "SEQ(A x, B, A y) OR SEQ(A x, A y)": "",
    "A{2,3}": "",
    "SEQ(A+, B+, C?)": "",
    "SEQ(A OR B, C)": "",
    "A": "",
    "SEQ(A x, A y, C)": "",
    "SEQ(any x, B, any y)": "",
}
"""Patterns, and conditions between neighbours for contiguous."""
WINDOWS = ["", "WITHIN 6 us", "WITHIN 6 us SLIDE 6 us", "WITHIN 6 us SLIDE 2 us"]
WINDOWS += ["WITHIN 5 EVENTS SLIDE 2 EVENTS"]


@contextmanager
def backwards() -> Iterator[None]:
    """Search for all matches backwards within the body."""
    with mock.patch.object(match_windows, "is_walked", return_value=False):
        yield


@contextmanager
def counted() -> Iterator[list[bool]]:
    """Collect for each walker of the body whether its events fit."""
    made: list[bool] = []
    init = walk.Walker.__init__

    def watched(self: walk.Walker, *arguments: object, **options: object) -> None:
        init(self, *arguments, **options)  # type: ignore[arg-type]  # passes on what it is given
        made.append(self.fits)

    with mock.patch.object(walk.Walker, "__init__", watched):
        yield made


COLUMNS = {
    "SEQ(A, B, C)": "A.x, C.ts, C.x + 1 AS more",
    "SEQ(A x, A y, C)": "x.key, x.x, y.ts, y.type",
    "SEQ(A, B+)": "A.ts, B.x",
}


@st.composite
def texts(draw: st.DrawFn, kinds: tuple[str, ...] = ("next", "contiguous")) -> str:
    pattern = draw(st.sampled_from(list(PATTERNS)))
    semantics = draw(st.sampled_from(kinds))
    conditions = ["[key]"] if draw(st.booleans()) else []
    if semantics == "contiguous" and PATTERNS[pattern] and draw(st.booleans()):
        conditions.append(PATTERNS[pattern])
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    ties = draw(st.sampled_from(["", "TIES arrival"]))
    columns = draw(st.sampled_from(["MATCHES", COLUMNS.get(pattern, "MATCHES")]))
    return (
        f"RETURN {columns} PATTERN {pattern} SEMANTICS {semantics} {where} "
        f"{draw(st.sampled_from(WINDOWS))} {ties}"
    )


@st.composite
def tables(draw: st.DrawFn, most: int = 40) -> pa.Table:
    step = st.integers(1 - draw(st.booleans()), 3)
    values = st.none() | st.integers(0, 4)
    event = st.tuples(step, st.sampled_from("ABC"), st.sampled_from([3, 4, 5]), values)
    steps, types, keys, numbers = zip(
        *draw(st.lists(event, min_size=1, max_size=most)), strict=True
    )
    times = itertools.accumulate(steps, initial=draw(st.integers(-9, 9)))
    return pa.table(
        {
            "ts": list(times)[1:],
            "type": list(types),
            "key": list(keys),
            "x": pa.array(numbers, pa.int64()),
        }
    )


@given(texts(), tables(), st.integers(1, 12), st.sampled_from([1, 3, MATCHES_ROOM]))
def test_both_ways_give_the_same_rows(text: str, table: pa.Table, rows: int, room: int) -> None:
    check(text, table, rows, room)


@given(texts(("any",)), tables(9), st.integers(1, 12), st.sampled_from([1, 3, MATCHES_ROOM]))
def test_all_later_events_find_what_waits(text: str, table: pa.Table, rows: int, room: int) -> None:
    check(text, table, rows, room)


def check(text: str, table: pa.Table, rows: int, room: int) -> None:
    """Compare a walk with the search backwards, in one step and in several."""
    plan = TrendPlan.of(query(text, schema=table.schema).plan)
    with backwards():
        expected = run_table(plan, table)
    with counted() as made, in_steps(), mock.patch.object(walk, "MATCHES_ROOM", room):
        assert run_table(plan, table).to_pylist() == expected.to_pylist()
        assert run_table(plan, table, batch_rows=rows).to_pylist() == expected.to_pylist()
    if len(expected):
        assert made, "these shapes are walked"
    if "contiguous" not in text or "arrival" in text:
        assert all(made), "whatever the events"


def in_steps() -> mock._patch[Any]:
    """List matches of one event as all others are, not by a filter of the whole table."""
    return mock.patch.object(local, "lists_one_event", return_value=False)


SINGLE = ["A", "SEQ(A, NOT B WITHIN 2 us)", "SEQ(NOT C WITHIN 3 us, A)", "SEQ(A, NOT NEXT B)"]


@given(
    st.sampled_from(SINGLE), st.sampled_from(["", "WHERE [key]", "WHERE [key] AND A.x > 1"]),
    st.sampled_from([*WINDOWS[:4], "", "LIMIT 2"]), tables(), st.integers(1, 12),
    st.sampled_from([1, MATCHES_ROOM]),
)  # fmt: skip
def test_matches_of_one_event_are_filtered(
    pattern: str, where: str, window: str, table: pa.Table, rows: int, room: int
) -> None:
    text = f"RETURN A.x, A.ts PATTERN {pattern} {where} {window}"
    plan = TrendPlan.of(query(text, schema=table.schema).plan)
    with backwards(), in_steps():
        expected = run_table(plan, table)
    assert run_table(plan, table).to_pylist() == expected.to_pylist()
    with in_steps(), counted() as made, mock.patch.object(walk, "MATCHES_ROOM", room):
        assert run_table(plan, table).to_pylist() == expected.to_pylist()
        assert run_table(plan, table, batch_rows=rows).to_pylist() == expected.to_pylist()
    assert all(made), "no event is looked up"
    assert made or not len(expected)


def test_full_buffers_of_events_are_continued() -> None:
    table = pa.table({"ts": range(30), "type": ["A"] * 30})
    plan = query("RETURN MATCHES PATTERN A+ SEMANTICS contiguous", schema=table.schema).plan
    with backwards():
        expected = run_table(plan, table)
    with mock.patch.object(walk, "BINDINGS_ROOM", 31):
        assert run_table(plan, table) == expected
    assert len(expected) == 30 * 31 // 2


def test_keys_without_events_take_no_memory() -> None:
    key = np.array([7, 1 << 40, 7])
    assert walk._dense(key).tolist() == [0, 1, 0]
    assert walk._dense(np.array([2, 0, 5])).tolist() == [2, 0, 5]


@given(st.lists(st.integers(0, 4), max_size=20))
def test_previous_events_are_found_in_both_ways(keys: list[int]) -> None:
    found = []
    times = np.arange(len(keys)) // 3
    for run in (find_previous.interpret, find_previous.function):
        previous = np.zeros(len(keys), np.int64)
        tied = run(np.array(keys, np.int64), times, np.full(5, -1), previous)
        found.append((bool(tied), previous.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_types_of_files_stay_texts(tmp_path: Path, semantics: str) -> None:
    table = pa.table({"ts": range(6), "type": list("ABABCA"), "x": range(6)})
    for name, part in (("1", table.slice(0, 3)), ("2", table.slice(3))):
        pq.write_table(part, tmp_path / f"{name}.parquet", row_group_size=2)
    text = f"PATTERN SEQ(A a, B b) SEMANTICS {semantics}"
    for columns in ("MATCHES", "a.type, b.x", "a.type AS first, b.x + 1 AS more"):
        compiled = query(f"RETURN {columns} {text}")
        expected = compiled.run(table)
        assert compiled.run(str(tmp_path)) == expected
        assert compiled.matches(str(tmp_path)).read_all() == expected
    for rest in ("GROUP-BY type", "WHERE A.type < NEXT(A).type OR A.type = 'A'"):
        compiled = query(f"RETURN MATCHES PATTERN ANY A+ SEMANTICS {semantics} {rest}")
        assert compiled.run(str(tmp_path)) == compiled.run(table)


@pytest.mark.parametrize("semantics", ["skip-till-any-match", "skip-till-next-match"])
@pytest.mark.parametrize("pattern", ["A a, B b", "A a, B b, C c", "A a, B b, C c, A d"])
def test_full_buffers_of_paths_go_on_where_they_stopped(semantics: str, pattern: str) -> None:
    kinds = [
        ("A", "A", "B", "A", "C", "B", "C", "C", "A", "B")[(i * 7 + i // 6) % 10] for i in range(90)
    ]
    events = pa.table({"ts": list(range(90)), "type": kinds, "k": [i % 3 for i in range(90)]})
    text = f"RETURN MATCHES PATTERN SEQ({pattern}) SEMANTICS {semantics} WHERE [k] WITHIN 25 us"
    whole = query(text).run(events)
    assert len(whole) > 10
    for room in (1, 2, 3, 7):
        with mock.patch.object(walk, "MATCHES_ROOM", room):
            assert query(text).run(events) == whole
