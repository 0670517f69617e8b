"""A pipeline as one step function: jobs that feed jobs (§15.6).

Stages run one after the other in every step. Only events before the watermark are released, that of
the base stream, so all events of one time reach a stage together and in order. Rows of a stage
become events; those at the watermark wait for the next step, because base events of their time may
still come. Rows of some stages leave later than at their times; what reads them is *behind* the
watermark by that lag, and so are the base events that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.events.files import present
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import BATCH_ROWS, local_job, slices_of
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS, slices
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.steps import Lags, Steps, run_steps, step_in_halves, take_until
from cepheid.jobs.tables import pack_table, unpack_table, with_columns
from cepheid.kinds.pipeline.continuing import states_of_stages
from cepheid.kinds.pipeline.inputs import Inputs, as_events, event_schema, times_in
from cepheid.plans.plan import BASE_STREAM, PipelinePlan, Plan, StagePlan

FORMAT = Format("pipeline", 1, "a pipeline")

StepsOf = Callable[[Plan, pa.Schema], Steps[Any]]
"""Creates the step function of a stage over events of a schema."""


class PipelineState(NamedTuple):
    """The states of all stages, and the events of each stream that wait for the watermark."""

    engines: tuple[Any, ...]
    waiting: tuple[pa.Table, ...]
    until: int = LONG_AGO
    """Stages have read what is before this time, less what they are behind."""


class _Snapshot(Meant):
    """The fields of a serialized state."""

    engines: tuple[bytes, ...]
    waiting: tuple[bytes, ...]
    until: int = LONG_AGO


class Stage(NamedTuple):
    """A stage that runs: its step function, its input, and the events that its rows are.

    It reads events up to the watermark less ``behind``.
    """

    plan: StagePlan
    job: Steps[Any]
    inputs: Inputs
    events: pa.Schema
    behind: int = 0

    def mark(self, until: int | None) -> int | None:
        """Return the time up to which it reads at a watermark."""
        return None if until is None else until - self.behind


class PipelineSteps(NamedTuple):
    """The stages of a pipeline over base events of a schema, or all but the last of them."""

    plan: PipelinePlan
    schema: pa.Schema
    stages: tuple[Stage, ...]

    @staticmethod
    def of(plan: PipelinePlan, schema: pa.Schema, steps_of: StepsOf | None = None) -> PipelineSteps:
        """Create the step function of all stages; ``steps_of`` creates that of one."""
        if plan.columns is not None:
            names = present(schema.names, plan.columns)
            schema = pa.schema([schema.field(name) for name in names])
        return PipelineSteps(plan, schema, tuple(_stages(plan, schema, steps_of)))

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
        after, events = self.feed(state, until)
        final = self.stages[last]
        engine, rows = run_stage(final.job, state.engines[last], events, final.mark(until))
        return after._replace(engines=(*after.engines, engine)), rows

    def feed(self, state: PipelineState, until: int | None) -> tuple[PipelineState, pa.Table]:
        """Run all stages but the last up to a time.

        Returns
        -------
        tuple
            The state without that of the last stage, and the events that the last stage reads.
        """
        time = self.plan.time
        streams, engines = [state.waiting[BASE_STREAM]], []
        *before, last = self.stages
        for number, stage in enumerate(before, 1):
            events = self._read(stage, streams, state.until, until)
            mark = stage.mark(until)
            engine, rows = run_stage(
                stage.job, state.engines[number - 1], events, mark, at_end=stage.plan.at_end
            )
            engines.append(engine)
            derived = as_events(stage.plan, time, self.plan.type or "", rows, stage.events)
            streams.append(_by_time(pa.concat_tables([state.waiting[number], derived]), time))
        waiting = tuple(self._left(number, table, until) for number, table in enumerate(streams))
        passed = state.until if until is None else until
        events = self._read(last, streams, state.until, until)
        return PipelineState(tuple(engines), waiting, passed), events

    def _read(
        self, stage: Stage, streams: Sequence[pa.Table], since: int, until: int | None
    ) -> pa.Table:
        """Return the events of all streams that a stage has not read yet and can read now."""
        time = self.plan.time
        begin, end = max(since - stage.behind, LONG_AGO), stage.mark(until)
        read = {n: _cut(streams[n], time, end)[0] for n in stage.plan.reads}
        return stage.inputs.table({n: _cut(table, time, begin)[1] for n, table in read.items()})

    def _left(self, number: int, events: pa.Table, until: int | None) -> pa.Table:
        """Keep the events of a stream that a stage has not read yet."""
        behind = [stage.behind for stage in self.stages if number in stage.plan.reads]
        mark = None if until is None else until - max(behind, default=0)
        return _cut(events, self.plan.time, mark)[1]

    @property
    def lag(self) -> int:
        """Return the largest output delay of a row in ticks; 0 if all rows leave in order."""
        last = self.stages[-1]
        own = lag_of(last.job)
        return last.behind + own if own else 0

    @property
    def behind(self) -> int:
        """Return how far behind the watermark rows may still come, in ticks."""
        last = self.stages[-1]
        return last.behind + lag_of(last.job)

    def forget(self, state: PipelineState, until: int) -> PipelineState:
        """Drop state that no event at or after a time can need."""
        pairs = zip(self.stages, state.engines, strict=True)
        engines = tuple(s.job.forget(engine, until - s.behind) for s, engine in pairs)
        return state._replace(engines=engines)

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
        return PipelineState(engines, waiting, saved.until)

    def write(self, state: PipelineState) -> bytes:
        """Serialize a state."""
        pairs = zip(self.stages, state.engines, strict=True)
        engines = tuple(stage.job.write(engine) for stage, engine in pairs)
        waiting = tuple(pack_table(one) if len(one) else b"" for one in state.waiting)
        own = (meaning_of(self.plan),)
        return write_state(FORMAT, _Snapshot(own, engines, waiting, state.until))

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
    state = whole.start()
    yield whole.stages[-1].inputs.schema.empty_table()
    for batch in batches:
        base = pa.concat_tables([state.waiting[BASE_STREAM], with_columns(batch, whole.schema)])
        if not len(base):
            continue
        until = int(times_in(base.slice(len(base) - 1), whole.plan.time)[0])
        state = state._replace(waiting=(base, *state.waiting[1:]))
        state, events = whole.feed(state, until)
        yield events
    yield whole.feed(state, None)[1]


def run_stage(
    job: Steps[Any], state: Any, events: pa.Table, until: int | None, *, at_end: bool = True
) -> tuple[Any, pa.Table]:
    """Process the events of a stage up to a time; None is the end of the stream.

    Without ``at_end``, rows that only the end gives are left out.
    """
    found: list[pa.Table] = []
    if until is not None:
        state, found = take_until(job, state, events, until)
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


def _stages(plan: PipelinePlan, schema: pa.Schema, steps_of: StepsOf | None) -> Iterator[Stage]:
    schemas, lags = [schema], [0]
    for number, stage in enumerate(plan.stages):
        inputs = Inputs.of(plan, number, schemas)
        made = steps_of or kind_of(stage.plan).stage_steps
        job = made(stage.plan, inputs.schema)
        events = pa.schema([])
        if number < len(plan.stages) - 1:
            events = event_schema(stage, plan.time, plan.type or "", job.nothing().schema)
            schemas.append(events)
        behind = max(lags[n] for n in stage.reads)
        lags.append(behind + lag_of(job))
        yield Stage(stage, job, inputs, events, behind)


def lag_of(job: Steps[Any]) -> int:
    """Return the largest output delay of a row of a step function, in ticks."""
    return job.lag if isinstance(job, Lags) else 0


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
