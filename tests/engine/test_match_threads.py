"""Threads that each list the matches of a range of time give the rows of one thread, in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, supported

import cepheid
from cepheid.api import query
from cepheid.errors import CepheidError, DataError
from cepheid.jobs import side_by_side
from cepheid.kinds.trend.local import LocalMatches
from cepheid.runtimes.local import run_table
from cepheid.testing.query_strategies import TIME_WINDOWS, TRAILING_WINDOWS, Case, cases
from cepheid.testing.strategies import streams as streams_of

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

PATTERNS = {
    "SEQ(A, B, C)": ["next", "any", "contiguous"],
    "SEQ(A, B+)": ["next", "any"],
    "SEQ(A, NOT C, B)": ["next", "any"],
    "SEQ(NOT C, A, B)": ["any"],
    "SEQ(A, B, NOT C)": ["any"],
    "SEQ(A, NOT B WITHIN 2 us)": ["any"],
    "A AND SEQ(A x, B)": ["any"],
}
"""Patterns, and the semantics under which they are listed."""
QUERIES = [
    f"RETURN MATCHES PATTERN {pattern} SEMANTICS {semantics} WHERE [key] WITHIN {window}"
    for pattern, every in PATTERNS.items()
    for semantics in every
    for window in ("1 us SLIDE 1 us", "6 us SLIDE 6 us", "6 us SLIDE 2 us", "5 us")
]


@contextmanager
def side_by_side_over(rows: int) -> Iterator[list[int]]:
    """Cut streams into ranges of a few events; collect the events that each thread reads."""
    read: list[int] = []
    inner = LocalMatches.answer_owned

    def noted(self: LocalMatches, batches: Any, *arguments: Any) -> pa.Table:
        tables = list(batches)
        read.append(sum(map(len, tables)))
        return inner(self, tables, *arguments)

    small = mock.patch.multiple(side_by_side, RANGE_ROWS=rows, thread_count=lambda: 3)
    with small, mock.patch.object(LocalMatches, "answer_owned", noted):
        yield read


def same_as_one_thread(text: str, table: pa.Table, rows: int, cut: int) -> list[int]:
    """Compare rows, their order and their types; return the events that each thread reads."""
    plan = query(text).with_schema(table.schema).plan
    expected = run_table(plan, table)
    with side_by_side_over(rows) as read:
        found = run_table(plan, table, batch_rows=cut)
    assert found.schema == expected.schema
    # As text, in which NaN equals itself.
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
    return read


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    steps = draw(st.sampled_from([[1], [0, 1, 3], [0, 0, 1, 9]]))
    event = st.tuples(st.sampled_from(steps), st.sampled_from("ABC"), st.sampled_from([3, 4, 5]))
    gaps, types, keys = zip(*draw(st.lists(event, min_size=12, max_size=60)), strict=True)
    times = list(itertools.accumulate(gaps, initial=draw(st.integers(-9, 9))))[1:]
    return pa.table({"ts": times, "type": list(types), "key": list(keys)})


@given(
    st.sampled_from(QUERIES), st.sampled_from(["", "TIES arrival"]), streams(),
    st.integers(1, 9), st.integers(1, 30),
)  # fmt: skip
def test_threads_list_the_rows_of_one(
    text: str, ties: str, table: pa.Table, rows: int, cut: int
) -> None:
    same_as_one_thread(f"{text} {ties}", table, rows, cut)


@st.composite
def listings(draw: st.DrawFn) -> Case:
    """Draw a query that lists the matches of windows of time, and a stream."""
    case = draw(cases())
    kept = ("PATTERN", "SEMANTICS", "WHERE", "GROUP-BY", "TIES", "MIN")
    lines = [line for line in case.query.splitlines() if line.startswith(kept)]
    window = draw(st.sampled_from([*TIME_WINDOWS, *TRAILING_WINDOWS]))
    events = draw(streams_of(case.schema, events_max=12))
    return Case("\n".join(["RETURN MATCHES", *lines, window]), case.schema, events)


@given(listings(), st.integers(1, 4), st.integers(1, 20))
def test_random_queries_list_the_rows_of_one_thread(case: Case, rows: int, cut: int) -> None:
    assume(case.events)
    try:
        compiled = query(case.query, schema={**case.schema, NUMBER: "bigint"})
    except CepheidError:
        return  # Some aggregates cannot be listed.
    if supported(compiled):
        same_as_one_thread(case.query, numbered(case.events), rows, cut)


def sequence(count: int) -> pa.Table:
    """Return events in which every third one ends a match."""
    return pa.table({"ts": range(count), "type": list("ABC") * (count // 3), "key": [1] * count})


NEXT = "RETURN {} PATTERN SEQ(A, B, C) SEMANTICS next WHERE [key] WITHIN 6 us SLIDE 6 us"


@pytest.mark.parametrize("shown", ["MATCHES", "A.ts, C.ts, C.key AS match_id"])
def test_ranges_are_read_by_threads_of_their_own(shown: str) -> None:
    read = same_as_one_thread(NEXT.format(shown), sequence(60), rows=9, cut=100)
    assert read == [12, 12, 12, 12, 12]


@pytest.mark.parametrize(
    "text",
    [
        NEXT.format("MATCHES") + " LIMIT 3",
        NEXT.format("MATCHES").replace("WITHIN 6 us SLIDE 6 us", ""),
        NEXT.format("MATCHES").replace("6 us SLIDE 6 us", "6 EVENTS SLIDE 6 EVENTS"),
        NEXT.format("MATCHES") + " AFTER MATCH SKIP PAST LAST",
        "RETURN MATCHES PATTERN SEQ(NOT B, A) WHERE [key] WITHIN 6 us",
    ],
)
def test_one_thread_lists_what_depends_on_all_before(text: str) -> None:
    assert same_as_one_thread(text, sequence(60), rows=2, cut=100) == [60]


def test_threads_share_the_limits_of_a_run() -> None:
    plan = query(NEXT.format("MATCHES")).with_schema(sequence(60).schema).plan
    for most, refused in ((20, False), (19, True)):
        with cepheid.limits(rows=most), side_by_side_over(9):
            if not refused:
                assert len(run_table(plan, sequence(60))) == most
                continue
            with pytest.raises(DataError, match="E518"):
                run_table(plan, sequence(60))
