"""Tasks that own ranges of time list every match once, without Spark: any edges, any queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, supported
from tests.runtime.cases import listed_cases, listing_cases, plain

from cepheid.api import query
from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.kind import needs_of
from cepheid.jobs.owned import Owned
from cepheid.jobs.task_jobs import task_job
from cepheid.jobs.work import Work
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.list_step import advance_matches, step_matches
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.runtimes.spark.tasks import _ranges_of
from cepheid.spark.schema import result_schema_of
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use


def by_ranges(plan: Plan, events: pa.Table, edges: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield the rows of tasks that own the ranges between edges."""
    work = Work.of(plan, events.schema, result_schema_of(plan, events.schema), len(edges) + 1)
    times = read_times(Columns(events), plan.time)
    rows, bucket = _ranges_of(times, edges, needs_of(plan).reach)
    bounds = [None, *edges, None]
    for number in range(len(edges) + 1):
        mine = events.take(rows[bucket == number])
        owned = Owned(bounds[number], bounds[number + 1])
        for batch in task_job(work).rows([mine.slice(0, 2), mine.slice(2)], owned, number):
            yield from batch.to_pylist()


def in_any_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, plain(list(rows))))


def check(plan: Plan, events: pa.Table, edges: tuple[int, ...]) -> None:
    found = list(by_ranges(plan, events, edges))
    assert in_any_order(found) == in_any_order(run_table(plan, events).to_pylist())
    ids = [row["match_id"] for row in found if "match_id" in row]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", range(3))
def test_golden_files(seed: int) -> None:
    tried = 0
    for case in [*listing_cases(), *listed_cases()]:
        if needs_of(case.plan).not_by_time or case.plan.limit is not None:
            continue
        times = np.unique(read_times(Columns(case.events), case.plan.time))
        chosen = np.random.default_rng(seed).choice(times, min(len(times), seed + 1), replace=False)
        check(case.plan, case.events, tuple(sorted(int(time) for time in chosen)))
        tried += 1
    assert tried >= 25


KEPT = ("PATTERN", "SEMANTICS", "WHERE", "GROUP-BY", "TIES", "MIN")
WINDOWS = st.sampled_from(
    ["WITHIN 4 s SLIDE 2 s", "WITHIN 3 s", "WITHIN 5 s SLIDE 5 s", "WITHIN 9 s SLIDE 2 s"]
)


def windowed(case: Case, window: str) -> tuple[Plan, pa.Table]:
    """Return a plan that lists the matches of a case in a window, and its events."""
    lines = [line for line in case.query.splitlines() if line.startswith(KEPT)]
    assume(case.events)
    # The window stands before TIES and MIN LENGTH.
    lines.sort(key=lambda line: line.startswith(("TIES", "MIN")))
    place = sum(not line.startswith(("TIES", "MIN")) for line in lines)
    lines.insert(place, window)
    text = "RETURN MATCHES\n" + "\n".join(lines)
    compiled = query(text, schema={**case.schema, NUMBER: "bigint"})
    assume(supported(compiled))
    return compiled.plan, numbered(case.events)


@given(cases(), WINDOWS, st.sets(st.integers(0, 20_000_000), max_size=3))
def test_random_queries(case: Case, window: str, edges: set[int]) -> None:
    plan, events = windowed(case, window)
    check(plan, events, tuple(sorted(edges)))


@given(cases(), WINDOWS, st.integers(1, 4))
def test_matches_leave_when_their_time_has_passed(case: Case, window: str, rows: int) -> None:
    plan, events = windowed(case, window)
    job = Job(TrendPlan.of(plan))
    state, found = PartitionState(job), []
    times = read_times(Columns(events), plan.time)
    cuts = [0, *(n for n in range(rows, len(events), rows) if times[n] > times[n - 1])]
    for begin, end in zip(cuts, [*cuts[1:], len(events)], strict=True):
        state, tables = step_matches(job, state, events.slice(begin, end - begin))
        found += [row for table in tables for row in table.to_pylist()]
        until = (
            int(times[end])
            if end < len(events)
            else int(times[-1]) + TrendPlan.of(plan).window.within + job.horizon + 1
        )
        state, tables = advance_matches(job, state, until)
        found += [row for table in tables for row in table.to_pylist()]
    assert repr(found) == repr(run_table(plan, events).to_pylist())
