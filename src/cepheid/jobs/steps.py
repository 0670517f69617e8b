"""A query as a step function, and how each runtime runs any of them.

start()                 ->  state
step(state, events)     ->  (state, rows that are certain)
advance(state, until)   ->  (state, rows): no event before ``until`` comes any more
finish(state)           ->  (state, rows): no event comes any more
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.bucket import Arrived
from cepheid.jobs.local_jobs import SITUATION_ROWS, slices_of
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import slices
from cepheid.jobs.owned import Owned
from cepheid.jobs.work import Work
from cepheid.memory_limits import collect
from cepheid.plans.plan import Plan

StateType = TypeVar("StateType")

REPORT_ROWS = 100_000
"""Rows of one batch that leaves a task."""

ROWS_MAX = 5_000_000
"""Rows of one bucket in one micro-batch: they travel as one value."""


class Steps(Protocol[StateType]):
    """A query as a step function over events in the order of time.

    Cutting a stream into other batches gives the same rows.
    """

    @property
    def plan(self) -> Plan:
        """Give the plan."""

    @property
    def batch_rows(self) -> int:
        """Give how many events one step takes."""

    def start(self) -> StateType:
        """Make the state before the first event."""

    def step(self, state: StateType, events: pa.Table) -> tuple[StateType, pa.Table]:
        """Take events; give the rows that are certain."""

    def advance(self, state: StateType, until: int) -> tuple[StateType, pa.Table]:
        """Close what ends by a time before which no event comes any more."""

    def finish(self, state: StateType) -> tuple[StateType, pa.Table]:
        """Close everything: no event comes any more."""

    def forget(self, state: StateType, until: int) -> StateType:
        """Drop what no event from a time on can need."""

    def nothing(self) -> pa.Table:
        """Give a result without rows."""

    def read(self, data: bytes) -> StateType:
        """Read a state; E524 if it belongs to another query."""

    def write(self, state: StateType) -> bytes:
        """Write a state as bytes."""

    def size(self, state: StateType) -> Size:
        """Measure how much a state holds."""


class LocalSteps(NamedTuple):
    """A step function over events that are all there."""

    of: Callable[[pa.Schema], Steps[Any]]
    in_order: bool = True

    @property
    def batch_rows(self) -> int:
        """Give how many events one step takes."""
        return SITUATION_ROWS

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table in order, in steps of so many rows."""
        return self.answer(slices_of(table, rows), table.schema)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Give the result over no events of a schema."""
        return self.of(schema).nothing()

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches in the order of time, as far as limits allow."""
        job = self.of(schema)
        return pa.concat_tables([job.nothing(), *collect(run_steps(job, batches))])


class TaskSteps(NamedTuple):
    """A step function inside a task that owns all of its events."""

    work: Work
    job: Steps[Any]

    def rows(
        self, tables: Iterable[pa.Table], owned: Owned, number: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of events in order."""
        del owned, number
        for rows in run_steps(self.job, tables):
            yield from self.work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)


class LiveSteps(NamedTuple):
    """A step function over a stream that does not end."""

    work: Work
    job: Steps[Any]

    @property
    def kind(self) -> str:
        """Give whose state this is, for messages."""
        return self.job.plan.what

    @property
    def plan(self) -> Plan:
        """Give the plan."""
        return self.job.plan

    def start(self) -> Any:
        """Make the state before the first event."""
        return self.job.start()

    def read(self, data: bytes) -> Any:
        """Read a state; E524 if it belongs to another query."""
        return self.job.read(data)

    def write(self, state: Any) -> bytes:
        """Write a state as bytes."""
        return self.job.write(state)

    def take(
        self, state: Any, events: pa.Table, since: int | None, until: int
    ) -> tuple[Any, list[pa.Table]]:
        """Take events before a watermark; give the rows that are certain by it."""
        del since
        state, found = take_until(self.job, state, events, until)
        return state, [self.work.shown(rows) for rows in found]

    def nothing(self) -> pa.Table:
        """Give a result without rows."""
        return self.work.result_schema.empty_table()

    def forget(self, state: Any, until: int) -> Any:
        """Drop what no event from the watermark on can need."""
        return self.job.forget(state, until)

    def measure(self, state: Any, came: Arrived) -> Size:
        """Measure how much a state holds."""
        del came
        return self.job.size(state)


def take_until(
    job: Steps[Any], state: Any, events: pa.Table, until: int
) -> tuple[Any, list[pa.Table]]:
    """Take events before a time, and close what ends by it.

    Raises
    ------
    DataError
        E513 if these are too many rows for one micro-batch.
    """
    found = []
    for part in slices(events, job.batch_rows):
        state, tables = _step(job, state, part)
        found += tables
        check_rows(sum(map(len, found)))
    state, rows = job.advance(state, until)
    found.append(rows)
    check_rows(sum(map(len, found)))
    return state, found


def check_rows(count: int) -> None:
    """Refuse more rows than one micro-batch can carry.

    Raises
    ------
    DataError
        E513.
    """
    if count > ROWS_MAX:
        message = f"more than {ROWS_MAX:,} matches are complete in one micro-batch"
        helps = (
            "make the window shorter, or ask for more in WHERE",
            "GROUP-BY spreads the matches over several tasks",
        )
        raise DataError([Diagnostic("E513", message, helps=helps)])


def run_steps(job: Steps[Any], batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of each batch, and what the end of the stream brings."""
    state = job.start()
    for batch in batches:
        state, tables = _step(job, state, batch)
        yield from tables
    yield job.finish(state)[1]


def _step(job: Steps[Any], state: Any, events: pa.Table) -> tuple[Any, list[pa.Table]]:
    """Take events in one step, or in two halves where one step would hold too much (E519)."""
    try:
        state, rows = job.step(state, events)
    except DataError as error:
        if error.diagnostics[0].code != "E519" or len(events) < 2:
            raise
    else:
        return state, [rows]
    middle = len(events) // 2
    state, first = _step(job, state, events.slice(0, middle))
    state, second = _step(job, state, events.slice(middle))
    return state, [*first, *second]
