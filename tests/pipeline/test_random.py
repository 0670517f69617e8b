"""Random pipelines give the rows of the oracle, however they are cut, stopped and started again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.pipeline.comparison import KINDS, STAMPED, expected_rows, plain, plan_of, planned
from tests.pipeline.drawing import Drawn, pipelines

import cepheid
from cepheid.jobs.steps import take_until
from cepheid.kinds.pipeline.steps import PipelineSteps

pytestmark = pytest.mark.filterwarnings("ignore:no event has the type")  # random events lack some


@given(pipelines())
def test_in_process(drawn: Drawn) -> None:
    query, plan = planned(drawn), plan_of(drawn)
    expected = expected_rows(drawn)
    event(f"{len(plan.stages)} stages, {'some' if expected else 'no'} rows")
    table = pa.Table.from_pylist(drawn.events, KINDS)
    assert plain(query.run(table)) == expected
    reader = table.cast(STAMPED).to_reader(5)
    assert plain(cepheid.query(drawn.text).run(reader)) == expected


@given(pipelines(), st.data())
def test_any_slices_and_restarts(drawn: Drawn, data: st.DataObject) -> None:
    """The state is written and read again after every step, by a job that is made anew."""
    plan = plan_of(drawn)
    table = pa.Table.from_pylist(drawn.events, KINDS)
    job = PipelineSteps.of(plan, table.schema)
    found, state, place = [], job.write(job.start()), 0
    while place < len(table):
        size = data.draw(st.integers(1, 6))
        job = PipelineSteps.of(plan, table.schema)
        after, rows = job.step(job.read(state), table.slice(place, size))
        state, place = job.write(after), place + size
        found.append(rows)
    found.append(job.finish(job.read(state))[1])
    assert plain(pa.concat_tables(found)) == expected_rows(drawn)


@given(pipelines(), st.data())
def test_any_watermarks(drawn: Drawn, data: st.DataObject) -> None:
    """Rows leave as the watermark passes, each once, and the end gives the rest."""
    plan = plan_of(drawn)
    table = pa.Table.from_pylist(drawn.events, KINDS)
    job = PipelineSteps.of(plan, table.schema)
    found: list[pa.Table] = []
    state, times = job.start(), [row["ts"] for row in drawn.events]
    marks = data.draw(st.lists(st.integers(0, 60), max_size=6).map(sorted))
    for mark in (m * 1_000_000 for m in marks):
        ready = [n for n, time in enumerate(times) if time < mark]
        begin = len(times) - len(table)
        part = table.slice(0, len(ready) - begin)
        state, tables = take_until(job, state, part, mark)
        table, state = table.slice(len(part)), job.forget(state, mark)
        found += tables
    state, rows = job.step(state, table)
    found += [rows, job.finish(state)[1]]
    assert plain(pa.concat_tables(found)) == expected_rows(drawn)


def test_the_law_of_the_watermark() -> None:
    """At a watermark, every derived event before it has left (§15.6)."""
    text = "CREATE STREAM W AS SELECT COUNT(*) AS n FROM s WINDOW 10 us; SELECT n FROM W"
    events = [{"ts": ts, "type": "A", "k": "p", "x": 1, "z": 1} for ts in (1, 2, 11, 25)]
    drawn = Drawn(text, events)
    table = pa.Table.from_pylist(events, KINDS)
    job = PipelineSteps.of(plan_of(drawn), table.schema)
    state, rows = take_until(job, job.start(), table.slice(0, 2), 10)
    # The window [0, 10) has ended; its event is at 10, and more events of this time may come.
    assert sum(map(len, rows)) == 0
    state, rows = take_until(job, state, table.slice(2, 0), 11)
    assert [row for part in rows for row in part.to_pylist()] == [{"n": 2}]
