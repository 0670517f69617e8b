"""What a query about situations remembers: restarts anywhere, live streams, and what it forgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.cases import SECOND_US, Case, cases
from tests.situations.test_situations import SCHEMA, table_of

import cepheid
from cepheid.arrays.columns import KeyTable
from cepheid.errors import DataError
from cepheid.framing import frame, unframe
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.snapshot import (
    FORMAT,
    situations_from_bytes,
    situations_to_bytes,
)
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations
from cepheid.plans.plan import Plan, SituationPlan
from cepheid.runtimes.local import run_table

OVERLAPS = "PARTITION BY k DEFINE A AS a, B AS b PATTERN A overlaps;before B WITHIN 5 s"


def plan_of(text: str) -> Plan:
    return cepheid.query(text).with_schema(SCHEMA).plan


@given(cases(relative=True), st.integers(1, 4))
def test_a_restart_after_every_step_changes_nothing(case: Case, size: int) -> None:
    table, plan = table_of(case.events), plan_of(case.query)
    job = SituationJob(SituationPlan.of(plan))
    state = SituationState.start(job)
    found = []
    for offset in range(0, max(len(table), 1), size):
        state, rows = step_situations(job, state, table.slice(offset, size))
        found.append(rows)
        state = situations_from_bytes(job, situations_to_bytes(job, state))
    found.append(finish_situations(job, state, table.schema)[1])
    assert pa.concat_tables(found).to_pylist() == run_table(plan, table).to_pylist()


@given(cases(relative=True), st.integers(0, 3), st.integers(1, 4))
def test_a_live_stream_gives_the_rows_of_a_batch(case: Case, delay: int, size: int) -> None:
    table, plan = table_of(case.events), plan_of(case.query)
    results = run_table(plan, table)
    work = Work.of(plan, table.schema, results.schema, 1, delay=delay * SECOND_US)
    data: bytes | None = None
    found = [results.schema.empty_table()]
    for offset in range(0, len(table), size):
        part = table.slice(offset, size)
        latest = int(np.asarray(part["ts"])[0])
        data, outcome = turn(
            live_job(work), work, data, [part.take(list(range(len(part)))[::-1])], latest
        )
        assert outcome.late == 0
        found.append(outcome.results)
    data, outcome = turn(live_job(work), work, data, [], 1 << 60)
    found.append(outcome.results)
    if not plan.tiebreak and len(set(table["ts"].to_pylist())) == len(table):
        assert pa.concat_tables(found).to_pylist() == results.to_pylist()


def test_bytes_of_another_query_or_version_are_refused() -> None:
    job, other = (
        SituationJob(SituationPlan.of(plan_of(OVERLAPS))),
        SituationJob(SituationPlan.of(plan_of(f"{OVERLAPS} RETURN COUNT(A)"))),
    )
    data = situations_to_bytes(job, SituationState.start(job))
    with pytest.raises(DataError, match=r"E524.*another query"):
        situations_from_bytes(other, data)
    with pytest.raises(DataError, match=r"E524.*no state"):
        situations_from_bytes(job, b"x")
    changed = frame("situations", 9, unframe(data, FORMAT.name, FORMAT.version))
    with pytest.raises(DataError, match=r"E524.*version 9"):
        situations_from_bytes(job, changed)


@pytest.mark.parametrize("options", [{"time_unit": "ns"}, {"tiebreak": ["b"]}, {"time": "at"}])
def test_bytes_under_another_unit_tie_breaker_or_time_are_refused(options: Any) -> None:
    schema = SCHEMA.append(pa.field("at", pa.int64()))
    known: list[dict[str, Any]] = [{}, options]
    plans = [cepheid.query(OVERLAPS, **more).with_schema(schema).plan for more in known]
    jobs = [SituationJob(SituationPlan.of(plan)) for plan in plans]
    data = situations_to_bytes(jobs[0], SituationState.start(jobs[0]))
    with pytest.raises(DataError, match=r"E524.*another query"):
        situations_from_bytes(jobs[1], data)


def test_old_situations_and_idle_partitions_are_forgotten() -> None:
    events = [
        {"ts": n * SECOND_US, "a": half == 0, "b": False, "k": f"{n}"}
        for n in range(200)
        for half in range(1, -1, -1)
    ]
    events += [{"ts": e["ts"], "a": False, "b": False, "k": e["k"]} for e in events]
    events.sort(key=lambda e: int(str(e["ts"])))
    plan = plan_of(OVERLAPS)
    table = pa.Table.from_pylist(events, SCHEMA)
    work = Work.of(plan, SCHEMA, run_table(plan, table).schema, 1)
    data, _ = turn(live_job(work), work, None, [table], None)
    data, outcome = turn(live_job(work), work, data, [], 1 << 60)
    job = SituationJob(SituationPlan.of(plan))
    state = SituationState.start(job)
    for offset in range(0, len(table), 16):
        state, _ = step_situations(job, state, table.slice(offset, 16))
    assert state.situation_count < 20
    assert outcome.partitions == 200
    _, outcome = turn(live_job(work), work, data, [], 1 << 60)
    assert outcome.partitions < 10


def test_events_out_of_order_are_refused() -> None:
    job = SituationJob(SituationPlan.of(plan_of(OVERLAPS)))
    state, _ = step_situations(job, SituationState.start(job), table_of([{"ts": 5}, {"ts": 6}]))
    with pytest.raises(DataError, match="E509"):
        step_situations(job, state, table_of([{"ts": 4}]))


def test_partitions_are_never_python_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 5000
    columns: dict[str, Any] = {"ts": np.arange(2 * count), "n": np.tile([1, 0], count)}
    columns["k"] = np.repeat(np.arange(count)[::-1], 2)
    table = pa.table(columns)
    monkeypatch.setattr(KeyTable, "values", None)
    rows = cepheid.query("PARTITION BY k, n DEFINE A AS n = 1 SITUATIONS A").run(table)
    assert len(rows) == 0
    text = "PARTITION BY k DEFINE A AS n = 1, B AS n = 0 PATTERN A meets B"
    rows = cepheid.query(text).run(table)
    assert rows["k"].to_pylist() == list(range(count))[::-1]


@pytest.mark.parametrize(
    ("window", "help_"), [("", "add a window"), ("WITHIN 1 hour", "make the window shorter")]
)
def test_more_situations_than_fit_are_refused(window: str, help_: str) -> None:
    events: list[dict[str, object]] = [{"ts": n, "a": n % 2 == 0, "b": False} for n in range(40)]
    query = cepheid.query(f"DEFINE A AS a, B AS b PATTERN A before B {window}")
    wanted = rf"error\[E515\]: .* more than 10 situations[^$]*{help_}[^$]*LIMITS=situations=20`"
    with cepheid.limits(situations=10), pytest.raises(DataError, match=wanted):
        query.run(table_of(events))
    with cepheid.limits(situations=20):
        query.run(table_of(events))
    assert len(cepheid.query("DEFINE A AS a SITUATIONS A").run(table_of(events))) == 20
