"""Situations of a stream that is cut anywhere are those of the whole: every slicing, every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.cases import SECOND_US, Case, cases
from tests.situations.test_situations import SCHEMA, table_of

import cepheid
from cepheid.kinds.situation import compose as situation_compose
from cepheid.kinds.situation.compose import compose, summarise_events
from cepheid.kinds.situation.job import SituationJob
from cepheid.plans.plan import Plan, SituationPlan
from cepheid.runtimes.local import run_table

TEXTS = (
    "DEFINE A AS a, B AS b AT LEAST 2 s PATTERN A overlaps;before;contains B RETURN COUNT(A) AS n, "
    "LAST(A.n) AS last, AVG(B.x) AS x",
    "DEFINE A AS a AT LEAST 3 s, B AS b PATTERN A overlaps;contains;finished by B "
    "DETECTED WITHIN 9 s RETURN SUM(A.n) AS n, FIRST(A.n) AS first, MAX(B.n) AS top",
    "DEFINE A AS a BETWEEN 2 s AND 5 s, B AS b PATTERN A overlaps;starts;before B WITHIN 9 s",
    "DEFINE A AS a AT LEAST 2 s, B AS b SITUATIONS A, B RETURN SUM(A.x) AS x, LAST(B.n) AS n",
    "DEFINE A AS a AT LEAST 4 EVENTS, B AS b AT LEAST 2 EVENTS "
    "PATTERN A overlaps;contains;finished by B DETECTED WITHIN 9 s RETURN SUM(A.n) AS n",
    "DEFINE A AS a AT MOST 5 EVENTS, B AS b AT LEAST 4 EVENTS AT LEAST 2 s SITUATIONS A, B",
)


def composed(plan: Plan, table: pa.Table, cuts: Sequence[int]) -> list[dict[str, object]]:
    """Return the rows of a table that is summarised in pieces."""
    job = SituationJob(SituationPlan.of(plan))
    pieces = [table.slice(a, b - a) for a, b in pairwise([0, *cuts, len(table)])]
    return rows_of(job, [summarise_events(job, piece) for piece in pieces])


def rows_of(job: SituationJob, summaries: list[pa.Table]) -> list[dict[str, object]]:
    return [row for rows in compose(job, summaries, SCHEMA) for row in rows.to_pylist()]


@given(cases(), st.lists(st.integers(0, 8), max_size=4).map(sorted))
def test_random_slicings(case: Case, cuts: list[int]) -> None:
    table = table_of(case.events)
    plan = cepheid.query(case.query).with_schema(SCHEMA).plan
    places = [min(cut, len(table)) for cut in cuts]
    assert composed(plan, table, places) == run_table(plan, table).to_pylist()


@pytest.mark.parametrize("text", TEXTS)
def test_every_slicing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [0, 1, 1, 2, 4, 4, 5, 7]
    flags = [(0, 0), (1, 0), (1, 0), (1, 1), (1, 1), (1, 1), (0, 1), (0, 0)]
    table = table_of(
        [
            {"ts": t * SECOND_US, "a": bool(a), "b": bool(b), "n": n, "x": n / 4}
            for n, (t, (a, b)) in enumerate(zip(times, flags, strict=True))
        ]
    )
    plan = cepheid.query(text).with_schema(SCHEMA).plan
    expected = run_table(plan, table).to_pylist()
    assert expected
    job, count = SituationJob(SituationPlan.of(plan)), len(table)
    pieces = {
        (a, b): summarise_events(job, table.slice(a, b - a))
        for a, b in combinations(range(count + 1), 2)
    }
    slicings = [
        [0, *cuts, count] for size in range(count) for cuts in combinations(range(1, count), size)
    ]
    for edges in slicings:
        assert rows_of(job, [pieces[pair] for pair in pairwise(edges)]) == expected, edges
    monkeypatch.setattr(situation_compose, "COMPOSE_ROWS", 1)
    for edges in (slicings[0], slicings[count], slicings[-1]):
        assert rows_of(job, [pieces[pair] for pair in pairwise(edges)]) == expected, edges
