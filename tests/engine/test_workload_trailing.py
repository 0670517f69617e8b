"""Trailing windows that queries of a workload share give what each query gives alone."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from cepheid.kinds.workload import shared_trailing
from cepheid.workloads import workload

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

PATTERNS = [
    "SEQ(A, B, C)",
    "SEQ(A, B, D)",
    "SEQ(E, A, B, D)",
    "SEQ(A+, B)",
    "SEQ(C, A+, B)",
    "SEQ(NOT E, A, B)",
    "SEQ(A, NOT E, B)",
]
CLAUSES = [
    "WITHIN 5 s",
    "WHERE [key] GROUP-BY key WITHIN 5 s",
    "WITHIN 7 s TIES arrival",
    "SEMANTICS skip-till-next-match WITHIN 9 s",
    "WHERE [key] WITHIN 7 s",
    "WHERE [key] GROUP-BY key WITHIN 7 s EMIT ON EXPIRY",
    "WHERE [key] WITHIN 5 s EMIT ON EXPIRY",
    "SEMANTICS skip-till-next-match WHERE [key] WITHIN 9 s EMIT ON EXPIRY",
]


def events_of(count: int, seconds: int) -> pa.Table:
    """Return random events, some of them at the same time."""
    random = np.random.default_rng(count)
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, seconds, count)) * 1_000_000),
            "type": [*"ABCDE"] * (count // 5),
            "key": pa.array(random.integers(0, 3, count)),
            "x": pa.array(random.random(count)),
        }
    )


def check(texts: list[str], events: pa.Table) -> None:
    """Compare a workload with its queries, one by one."""
    together = workload(texts)
    (group,) = together.shared(events.schema).groups
    assert len(group.members) == len(texts)
    found = together.run(events, separate=True)
    assert any(len(rows) for rows in found.values())
    for name, query in zip(together.names, together.queries, strict=True):
        mine, alone = found[name].to_pandas(), query.run(events).to_pandas()
        assert len(mine) == len(alone)
        assert list(mine) == list(alone)
        for column in mine:
            assert np.allclose(
                mine[column].astype("float64"),
                alone[column].astype("float64"),
                rtol=1e-12,
                equal_nan=True,
            ), (name, column)


@pytest.mark.parametrize("returns", ["COUNT(*)", "COUNT(*), SUM(A.x), MIN(A.x), MAX(A.x)"])
@pytest.mark.parametrize("clauses", CLAUSES)
@pytest.mark.parametrize(("count", "seconds"), [(300, 60), (300, 600)])
def test_shared_trailing_windows_equal_those_of_each_query(
    returns: str, clauses: str, count: int, seconds: int
) -> None:
    texts = [f"RETURN {returns} PATTERN {pattern} {clauses}" for pattern in PATTERNS]
    check(texts, events_of(count, seconds))


def test_counts_beyond_doubles_are_shared() -> None:
    types = (["A"] * 1_200 + ["B", "C"]) * 2
    events = pa.table({"ts": pa.array(np.arange(len(types)) * 1_000), "type": types})
    texts = [
        f"RETURN COUNT(*), LOG2(COUNT(*)) AS bits PATTERN SEQ(A+, {last}) WITHIN 2 s"
        for last in "BC"
    ]
    together = workload(texts)
    assert len(together.shared(events.schema).groups) == 1
    found = together.run(events, separate=True)
    for name, query in zip(together.names, together.queries, strict=True):
        bits = found[name]["bits"].to_pylist()
        assert bits == pytest.approx(query.run(events)["bits"].to_pylist(), rel=1e-12)
        assert max(bits) > 1_100


@pytest.mark.parametrize("returns", ["COUNT(*)", "COUNT(*), SUM(A.x)"])
@pytest.mark.parametrize("clauses", ["WITHIN 9 s TIES arrival", "WITHIN 9 s EMIT ON EXPIRY"])
@pytest.mark.parametrize("types", ["ABNBC", "NNABC", "ANNBC"])
def test_an_event_of_a_negated_sequence_moves_what_ends_at_its_time(
    returns: str, clauses: str, types: str
) -> None:
    # The last B and C have one time: C begins what is forbidden after B, and ends no match.
    events = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, 4]),
            "type": list(types),
            "x": pa.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        }
    )
    clauses = clauses.replace("9 s", "9 microseconds")
    clauses += "" if "TIES" in clauses else " TIES arrival"
    texts = [
        f"RETURN {returns} PATTERN {pattern} {clauses}"
        for pattern in ("SEQ(A, NOT N, B, NOT SEQ(C, D))", "SEQ(A, NOT N, B)", "A")
    ]
    check(texts, events)


@pytest.mark.parametrize(
    ("clauses", "why"),
    [
        ("WITHIN 9 s EMIT ON EXPIRY TIES arrival", "NOT at the beginning and TIES arrival"),
        ("WHERE [key] WITHIN 9 s TIES arrival", "NOT at the beginning and TIES arrival"),
        ("WITHIN 9 s EMIT ON EXPIRY", "no other query"),
        ("WHERE [key] GROUP-BY key WITHIN 9 s TIES arrival", "no other query"),
    ],
)
def test_a_leading_not_says_why_it_runs_alone(clauses: str, why: str) -> None:
    text = f"RETURN COUNT(*) PATTERN SEQ(NOT E, A, B) {clauses}"
    assert why in workload([text]).explain()


def test_the_plan_draws_matches_that_begin_behind_a_not_and_tells_of_expiries() -> None:
    texts = [
        f"RETURN COUNT(*) PATTERN {pattern} WITHIN 9 s EMIT ON EXPIRY"
        for pattern in ("SEQ(NOT E, A, B)", "SEQ(NOT E, A, C)", "SEQ(A, B)")
    ]
    told = [line.strip() for line in workload(texts).explain().splitlines()]
    assert told[4:] == [
        "rows come when matches end, and when events leave",
        "start (not E)",
        "└─ A, 2 queries",
        "├─ B → q1",
        "└─ C → q2",
        "start",
        "└─ A",
        "└─ B → q3",
    ]


def test_rows_that_do_not_fit_are_computed_again() -> None:
    with mock.patch.object(shared_trailing, "ROOM_BYTES", 64):
        for clauses in (*CLAUSES[:2], *CLAUSES[-2:]):
            check(
                [f"RETURN COUNT(*) PATTERN {pattern} {clauses}" for pattern in PATTERNS],
                events_of(300, 60),
            )
