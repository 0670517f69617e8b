"""A pipeline as one step function: jobs that feed jobs (§15.6).

Stages run one after the other in every step. Only events before the watermark are released, that of
the base stream, so all events of one time reach a stage together and in order. Rows of a stage
become events; those at the watermark wait for the next step, because base events of their time may
still come.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.events.files import present
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import BATCH_ROWS, local_job, slices_of
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS, slices
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.steps import Steps, run_steps, step_in_halves, take_until
from cepheid.jobs.tables import pack_table, unpack_table, with_columns
from cepheid.kinds.pipeline.continuing import states_of_stages
from cepheid.kinds.pipeline.inputs import Inputs, as_events, event_schema, times_in
from cepheid.plans.plan import BASE_STREAM, PipelinePlan, StagePlan

FORMAT = Format("pipeline", 1, "a pipeline")


class PipelineState(NamedTuple):
    """The states of all stages, and the events of each stream that wait for the watermark."""

    engines: tuple[Any, ...]
    waiting: tuple[pa.Table, ...]


class _Snapshot(Meant):
    """The fields of a serialized state."""

    engines: tuple[bytes, ...]
    waiting: tuple[bytes, ...]


class Stage(NamedTuple):
    """A stage that runs: its step function, its input, and the events that its rows are."""

    plan: StagePlan
    job: Steps[Any]
    inputs: Inputs
    events: pa.Schema


class PipelineSteps(NamedTuple):
    """The stages of a pipeline over base events of a schema, or all but the last of them."""

    plan: PipelinePlan
    schema: pa.Schema
    stages: tuple[Stage, ...]

    @staticmethod
    def of(plan: PipelinePlan, schema: pa.Schema) -> PipelineSteps:
        """Create the step function of all stages."""
        if plan.columns is not None:
            names = present(schema.names, plan.columns)
            schema = pa.schema([schema.field(name) for name in names])
        return PipelineSteps(plan, schema, tuple(_stages(plan, schema)))

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> PipelineState:
        """Create the state before the first event."""
        waiting = (self.schema, *(stage.events for stage in self.stages[:-1]))
        engines = tuple(stage.job.start() for stage in self.stages)
        return PipelineState(engines, tuple(schema.empty_table() for schema in waiting))

    def step(self, state: PipelineState, events: pa.Table) -> tuple[PipelineState, pa.Table]:
        """Process the events before the last time; more events of this time may come."""
        state = self._with(state, events)
        whole = state.waiting[BASE_STREAM]
        if not len(whole):
            return state, self.nothing()
        return self._run(state, int(times_in(whole.slice(len(whole) - 1), self.plan.time)[0]))

    def step_until(
        self, state: PipelineState, events: pa.Table, until: int
    ) -> tuple[PipelineState, pa.Table]:
        """Process events before a time, and close windows that end by it, in one pass."""
        return self._run(self._with(state, events), until)

    def _with(self, state: PipelineState, events: pa.Table) -> PipelineState:
        """Add events to those that wait."""
        fresh = with_columns(events, self.schema)
        held = state.waiting[BASE_STREAM]
        whole = pa.concat_tables([held, fresh]) if len(held) else fresh
        return state._replace(waiting=(whole, *state.waiting[1:]))

    def advance(self, state: PipelineState, until: int) -> tuple[PipelineState, pa.Table]:
        """Process all events before a time, and close the windows of all stages that end by it."""
        return self._run(state, until)

    def finish(self, state: PipelineState) -> tuple[PipelineState, pa.Table]:
        """Process all events, and close all windows, stage by stage."""
        return self._run(state, None)

    def _run(self, state: PipelineState, until: int | None) -> tuple[PipelineState, pa.Table]:
        last = len(self.stages) - 1
        engines, waiting, released = self.feed(state, until, last)
        final = self.stages[last]
        events = final.inputs.table(released)
        engine, rows = run_stage(final.job, state.engines[last], events, until)
        return PipelineState((*engines, engine), waiting), rows

    def feed(
        self, state: PipelineState, until: int | None, count: int
    ) -> tuple[tuple[Any, ...], tuple[pa.Table, ...], dict[int, pa.Table]]:
        """Run the first stages up to a time.

        Returns
        -------
        tuple
            The states of the stages, the events of each stream that wait, and those that do not.
        """
        time = self.plan.time
        released, held = _cut(state.waiting[BASE_STREAM], time, until)
        streams, waiting, engines = {BASE_STREAM: released}, [held], []
        for number, stage in enumerate(self.stages[:count], 1):
            events = stage.inputs.table(streams)
            engine, rows = run_stage(
                stage.job, state.engines[number - 1], events, until, at_end=stage.plan.at_end
            )
            engines.append(engine)
            kind = self.plan.type or ""
            derived = as_events(stage.plan, time, kind, rows, stage.events)
            whole = pa.concat_tables([state.waiting[number], derived])
            streams[number], left = _cut(_by_time(whole, time), time, until)
            waiting.append(left)
        return tuple(engines), tuple(waiting), streams

    def forget(self, state: PipelineState, until: int) -> PipelineState:
        """Drop state that no event at or after a time can need."""
        pairs = zip(self.stages, state.engines, strict=True)
        return state._replace(engines=tuple(s.job.forget(engine, until) for s, engine in pairs))

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.stages[-1].job.nothing()

    def read(self, data: bytes) -> PipelineState:
        """Deserialize a state; E524 if it belongs to another query."""
        own = (meaning_of(self.plan),)
        earlier = (msgspec.json.encode(states_of_stages(self.plan)).decode(),)
        saved = read_own(FORMAT, data, _Snapshot, own, earlier, text_of(self.plan))
        pairs = zip(self.stages, saved.engines, strict=True)
        engines = tuple(stage.job.read(engine) for stage, engine in pairs)
        none = self.start().waiting
        pairs_ = zip(saved.waiting, none, strict=True)
        waiting = tuple(unpack_table(data) if data else empty for data, empty in pairs_)
        return PipelineState(engines, waiting)

    def write(self, state: PipelineState) -> bytes:
        """Serialize a state."""
        pairs = zip(self.stages, state.engines, strict=True)
        engines = tuple(stage.job.write(engine) for stage, engine in pairs)
        waiting = tuple(pack_table(one) if len(one) else b"" for one in state.waiting)
        return write_state(FORMAT, _Snapshot((meaning_of(self.plan),), engines, waiting))

    def size(self, state: PipelineState) -> Size:
        """Add up the partitions and windows of all stages."""
        sizes = [s.job.size(e) for s, e in zip(self.stages, state.engines, strict=True)]
        return Size(sum(s.partitions for s in sizes), sum(s.open_windows for s in sizes))


class LocalPipeline(NamedTuple):
    """A pipeline over bounded input: the last stage gets the events of the others as batches."""

    plan: PipelinePlan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return BATCH_ROWS

    @property
    def in_order(self) -> bool:
        """Require events in time order."""
        return True

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return self.answer([], schema).slice(0, 0)

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a sorted table, in steps of ``rows`` rows."""
        return self.answer(slices_of(table, rows), table.schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches in time order."""
        whole = PipelineSteps.of(self.plan, schema)
        final = whole.stages[-1]
        if final.inputs.apart:
            found = run_steps(whole, batches)
            return pa.concat_tables([whole.nothing(), *found])
        events = _last_input(whole, batches)
        return local_job(final.plan.plan).answer(events, final.inputs.schema)


def _last_input(whole: PipelineSteps, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the events that the last stage reads, in order."""
    state, last = whole.start(), len(whole.stages) - 1
    inputs = whole.stages[last].inputs
    yield inputs.schema.empty_table()
    for batch in batches:
        base = pa.concat_tables([state.waiting[BASE_STREAM], with_columns(batch, whole.schema)])
        if not len(base):
            continue
        until = int(times_in(base.slice(len(base) - 1), whole.plan.time)[0])
        state = state._replace(waiting=(base, *state.waiting[1:]))
        engines, waiting, streams = whole.feed(state, until, last)
        state = PipelineState((*engines, None), waiting)
        yield inputs.table(streams)
    yield inputs.table(whole.feed(state, None, last)[2])


def run_stage(
    job: Steps[Any], state: Any, events: pa.Table, until: int | None, *, at_end: bool = True
) -> tuple[Any, pa.Table]:
    """Process the events of a stage up to a time; None is the end of the stream.

    Without ``at_end``, rows that only the end gives are left out.
    """
    found: list[pa.Table] = []
    if until is not None:
        state, found = take_until(job, state, events, until, rows_max=sys.maxsize)
    else:
        for part in slices(events, job.batch_rows):
            state, tables = step_in_halves(job, state, part)
            found += tables
        if at_end:
            state, rows = job.finish(state)
            found.append(rows)
    full = [rows for rows in found if len(rows)]
    if len(full) < 2:
        return state, full[0] if full else job.nothing()
    return state, pa.concat_tables(full)


def _stages(plan: PipelinePlan, schema: pa.Schema) -> Iterator[Stage]:
    schemas = [schema]
    for number, stage in enumerate(plan.stages):
        inputs = Inputs.of(plan, number, schemas)
        job = kind_of(stage.plan).stage_steps(stage.plan, inputs.schema)
        events = pa.schema([])
        if number < len(plan.stages) - 1:
            events = event_schema(stage, plan.time, plan.type or "", job.nothing().schema)
            schemas.append(events)
        yield Stage(stage, job, inputs, events)


def _by_time(events: pa.Table, time: str) -> pa.Table:
    """Sort events by time; those of one time keep their order."""
    times = times_in(events, time)
    if len(times) < 2 or (times[1:] >= times[:-1]).all():
        return events
    return events.take(np.argsort(times, kind="stable"))


def _cut(events: pa.Table, time: str, until: int | None) -> tuple[pa.Table, pa.Table]:
    """Cut events in order at a time; at the end of the stream, none is left."""
    if until is None:
        return events, events.slice(0, 0)
    place = int(np.searchsorted(times_in(events, time), until, side="left"))
    return events.slice(0, place), events.slice(place)
