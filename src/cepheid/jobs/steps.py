"""A query as a step function, and how each runtime runs it.

start()                 ->  state
step(state, events)     ->  (state, final rows)
advance(state, until)   ->  (state, rows): no more events before ``until`` come
finish(state)           ->  (state, rows): no more events come
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import pyarrow as pa

from cepheid.errors import DataError
from cepheid.jobs.bucket import Arrived
from cepheid.jobs.local_jobs import SITUATION_ROWS, slices_of
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import slices
from cepheid.jobs.owned import Owned
from cepheid.jobs.spill import Spilling
from cepheid.jobs.work import Work
from cepheid.memory_limits import collect
from cepheid.plans.plan import Plan

StateType = TypeVar("StateType")

REPORT_ROWS = 100_000
"""Rows of one batch that leaves a task."""


class Steps(Protocol[StateType]):
    """A query as a step function over events in time order.

    The rows do not depend on how the stream is cut into batches.
    """

    @property
    def plan(self) -> Plan:
        """Return the plan."""

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""

    def start(self) -> StateType:
        """Create the state before the first event."""

    def step(self, state: StateType, events: pa.Table) -> tuple[StateType, pa.Table]:
        """Process events; return the rows that are final."""

    def advance(self, state: StateType, until: int) -> tuple[StateType, pa.Table]:
        """Close the windows that end by a time; no more events before it come."""

    def finish(self, state: StateType) -> tuple[StateType, pa.Table]:
        """Close all windows: no more events come."""

    def forget(self, state: StateType, until: int) -> StateType:
        """Drop state that no event at or after a time can need."""

    def nothing(self) -> pa.Table:
        """Create an empty result."""

    def read(self, data: bytes) -> StateType:
        """Deserialize a state; E524 if it belongs to another query."""

    def write(self, state: StateType) -> bytes:
        """Serialize a state."""

    def size(self, state: StateType) -> Size:
        """Measure the size of a state."""


@runtime_checkable
class Lags(Protocol):
    """A step function whose rows leave later than at their times (§15.3)."""

    @property
    def lag(self) -> int:
        """Return the largest output delay of a row, in ticks."""


class LocalSteps(NamedTuple):
    """A step function over bounded input."""

    of: Callable[[pa.Schema], Steps[Any]]
    in_order: bool = True

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return SITUATION_ROWS

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a sorted table, in steps of ``rows`` rows."""
        return self.answer(slices_of(table, rows), table.schema)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return self.of(schema).nothing()

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches in time order, until LIMIT is reached."""
        job = self.of(schema)
        return pa.concat_tables([job.nothing(), *collect(run_steps(job, batches))])


class TaskSteps(NamedTuple):
    """A step function inside a task that owns all of its events."""

    work: Work
    job: Steps[Any]

    def rows(
        self, tables: Iterable[pa.Table], owned: Owned, number: int
    ) -> Iterator[pa.RecordBatch]:
        """Compute the rows of events in time order."""
        del owned, number
        for rows in run_steps(self.job, tables):
            yield from self.work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)


class LiveSteps(NamedTuple):
    """A step function over an unbounded stream."""

    work: Work
    job: Steps[Any]

    @property
    def kind(self) -> str:
        """Return the name of the kind of query, for messages."""
        return self.job.plan.what

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self.job.plan

    def with_work(self, work: Work) -> Any:
        """Create the same job for other work."""
        return work.kind.live_job(work)

    def start(self) -> Any:
        """Create the state before the first event."""
        return self.job.start()

    def read(self, data: bytes) -> Any:
        """Deserialize a state; E524 if it belongs to another query."""
        return self.job.read(data)

    def write(self, state: Any) -> bytes:
        """Serialize a state."""
        return self.job.write(state)

    def take(
        self, state: Any, events: pa.Table, since: int | None, until: int
    ) -> tuple[Any, list[pa.Table]]:
        """Process events before a watermark; return the rows that it makes final."""
        del since
        state, found = take_until(self.job, state, events, until)
        return state, [self.work.shown(rows) for rows in found]

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.work.result_schema.empty_table()

    def forget(self, state: Any, until: int) -> Any:
        """Drop state that no event at or after the watermark can need."""
        return self.job.forget(state, until)

    def measure(self, state: Any, came: Arrived) -> Size:
        """Measure the size of a state."""
        del came
        return self.job.size(state)


@runtime_checkable
class HasWindows(Protocol):
    """A step function whose rows leave at the ends of windows."""

    def next_rows(self, until: int) -> int:
        """Return the first watermark above a given one at which rows can leave."""


@runtime_checkable
class StepsUntil(Protocol):
    """A step function that can take its last events and advance in one pass."""

    def step_until(self, state: Any, events: pa.Table, until: int) -> tuple[Any, pa.Table]:
        """Process events before a time, and close the windows that end by it."""


@cache
def is_a(kind: type, protocol: type) -> bool:
    """Check whether a class has the methods of a protocol; Python would list them every time."""
    return issubclass(kind, protocol)


def take_until(
    job: Steps[Any], state: Any, events: pa.Table, until: int
) -> tuple[Any, list[pa.Table]]:
    """Process events before a time, and close the windows that end by it.

    Raises
    ------
    DataError
        E513 if the rows need more room than the disk has.
    """
    found = Spilling()
    parts = list(slices(events, job.batch_rows))
    last = parts.pop() if parts and is_a(type(job), StepsUntil) else None
    for part in parts:
        state, tables = step_in_halves(job, state, part)
        _add(found, tables)
    if last is not None:
        state, tables = _last_step(job, state, last, until)
    else:
        state, rows = job.advance(state, until)
        tables = [rows]
    _add(found, tables)
    return state, found.tables()


def _add(found: Spilling, tables: list[pa.Table]) -> None:
    for table in tables:
        found.add(table)


def _last_step(
    job: Steps[Any], state: Any, events: pa.Table, until: int
) -> tuple[Any, list[pa.Table]]:
    """Process the last events before a time in one pass, or in halves if it needs less memory."""
    try:
        state, rows = cast("StepsUntil", job).step_until(state, events, until)
    except DataError as error:
        if error.diagnostics[0].code != "E519":
            raise
    else:
        return state, [rows]
    state, tables = step_in_halves(job, state, events)
    state, rows = job.advance(state, until)
    return state, [*tables, rows]


def run_steps(job: Steps[Any], batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Compute the rows of each batch, then those of the end of the stream."""
    state = job.start()
    for batch in batches:
        state, tables = step_in_halves(job, state, batch)
        yield from tables
    yield job.finish(state)[1]


def step_in_halves(job: Steps[Any], state: Any, events: pa.Table) -> tuple[Any, list[pa.Table]]:
    """Process events in one step, or in two halves if one step needs too much memory (E519)."""
    try:
        state, rows = job.step(state, events)
    except DataError as error:
        if error.diagnostics[0].code != "E519" or len(events) < 2:
            raise
    else:
        return state, [rows]
    middle = len(events) // 2
    state, first = step_in_halves(job, state, events.slice(0, middle))
    state, second = step_in_halves(job, state, events.slice(middle))
    return state, [*first, *second]
