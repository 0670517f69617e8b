"""A live query in one process: feed events, get the rows that no later event can change."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic, UnsupportedError
from cepheid.events.arriving import as_table, like, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.temporal import FOREVER, UNIT_MICROSECONDS, duration_us
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.jobs.bucket import Arrived, bucket_of, open_bucket, write_bucket
from cepheid.jobs.continuing import continued
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import ordered
from cepheid.jobs.steps import Steps, take_until
from cepheid.jobs.tables import with_columns
from cepheid.jobs.watermarks import in_ticks
from cepheid.jobs.work import Work
from cepheid.options import refuse
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import CompiledQueryLike

KIND = "a live query in one process"
"""The name of its state, for messages."""
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


class LiveQuery:
    """A query that runs over a stream batch by batch; made by :meth:`CompiledQuery.live`.

    The watermark is the latest time so far, less the allowed lateness. Events wait until it passes
    them, are sorted, and leave their rows. Those behind it are late: they are dropped and counted.
    """

    def __init__(
        self, compiled: CompiledQueryLike, schema: pa.Schema, watermark: str, state: bytes | None
    ) -> None:
        self._times = compiled.times
        schema = timed_schema(plain_schema(schema), self._times)
        started = _Started.of(compiled.with_schema(schema).plan, schema)
        before = open_bucket(KIND, state)
        started, self._work = continued(started, started.work, before, KIND)
        self._job, self._plan = started.job, started.job.plan
        self._delay = in_ticks(self._work, _delay(watermark))
        saved = bucket_of(self._work, before, KIND, same_columns=True)
        self._until, self._waiting = saved.until, saved.buffer
        self._state = self._job.start() if not saved.engine else self._job.read(saved.engine)
        self.late = 0
        """How many events were behind the watermark."""

    @property
    def waiting(self) -> int:
        """Count the events that wait for the watermark."""
        return len(self._waiting)

    def feed(self, events: Any) -> Any:
        """Process events; return the rows that are final, in the same kind of container.

        A single event is a dict. Events of other columns or types are refused, and change nothing.
        """
        schema = self._work.schema
        came = [events] if isinstance(events, dict) else events
        if isinstance(came, list) and not came:
            came = schema.empty_table()
        table = in_units_of(timed_table(as_table(came), self._times), schema)
        # A dict may lack what an event does not have; a table has columns for all of its events.
        whole = not isinstance(came, list)
        table = self._on_time(_fitted(table, schema, whole=whole))
        if not len(table):
            return like(events, self._job.nothing())
        self._waiting = ordered(pa.concat_tables([self._waiting, table]), self._plan)
        times = read_times(Columns(self._waiting), self._plan.time)
        until = int(times[-1]) - self._delay
        if self._until is not None and until <= self._until:
            return like(events, self._job.nothing())
        return like(events, self._take(int(np.searchsorted(times, until)), until))

    def close(self) -> pa.Table:
        """End the stream: return the rows of all events that still wait and windows still open."""
        return self._take(len(self._waiting), FOREVER)

    def save(self) -> bytes:
        """Serialize the state, for ``q.live(schema, state=...)``; late events are counted anew."""
        empty = self._work.schema.empty_table()
        came = Arrived(0, empty, self._until, empty, self._waiting, 0, empty)
        return write_bucket(self._work, KIND, came, self._job.write(self._state))

    def _on_time(self, table: pa.Table) -> pa.Table:
        """Drop late events, and count them."""
        if self._until is None or not len(table):
            return table
        early = read_times(Columns(table), self._plan.time) < self._until
        late = int(early.sum())
        self.late += late
        return table.filter(pa.array(~early)) if late else table

    def _take(self, count: int, until: int) -> pa.Table:
        """Let the watermark pass so many of the waiting events."""
        ready, later = self._waiting.slice(0, count), self._waiting.slice(count)
        state, found = take_until(self._job, self._state, ready, until)
        # Only now, so that events stay here if one of them raises an error.
        self._state, self._waiting = self._job.forget(state, until), later
        self._until = until
        return pa.concat_tables([self._job.nothing(), *found])


class _Started(NamedTuple):
    """The step function of a query, and its parameters."""

    job: Steps[Any]
    work: Work

    @staticmethod
    def of(plan: Plan, schema: pa.Schema) -> _Started:
        job = _steps(plan, schema)
        return _Started(job, Work.of(plan, schema, job.nothing().schema, 1))

    def with_work(self, work: Work) -> _Started:
        """Go on with the state of a query that differs in what does not matter."""
        return _Started(_steps(work.planned(), work.schema), work)


def _steps(plan: Any, schema: pa.Schema) -> Steps[Any]:
    """Create the step function of a query, if it has one over a stream without end.

    Raises
    ------
    UnsupportedError
        E404 if there are two streams or rows of open windows, E405 if no row leaves before the end.
    """
    kind = kind_of(plan)
    kind.check_live(plan)
    why = f"{plan.what} does not run live in one process"
    if plan.emits_early:
        why = "EMIT EARLY reports open windows at the end of each micro-batch, which Spark has"
    elif len(plan.streams) < 2:
        steps: Steps[Any] | None = kind.stage_steps(plan, schema)
        if steps is not None:
            return steps
    raise UnsupportedError([Diagnostic("E404", why, helps=("use `q.stream`",))], plan.text)


def _fitted(events: pa.Table, schema: pa.Schema, *, whole: bool) -> pa.Table:
    """Convert events to the columns of a schema; what a dict lacks is NULL.

    Raises
    ------
    DataError
        E505 if a table lacks a column, E501 if values are of another type.
    """
    given = events.column_names
    if whole and (lacking := [name for name in schema.names if name not in given]):
        message = f"the events have no column `{lacking[0]}`, which the schema of the query has"
        raise DataError([Diagnostic("E505", message, helps=(f"columns: {', '.join(given)}",))])
    for place, name in enumerate(given):
        if name not in schema.names or events.schema.field(name).type == schema.field(name).type:
            continue
        try:
            values = events.column(place).cast(schema.field(name).type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            found = f"{events.schema.field(name).type}, not {schema.field(name).type}"
            message = f"the values of `{name}` are {found}: {str(error).splitlines()[0]}"
            raise DataError([Diagnostic("E501", message)]) from error
        events = events.set_column(place, name, values)
    return with_columns(events, schema)


def _delay(watermark: str) -> int:
    """Parse the allowed lateness, in microseconds."""
    found = _LENGTH.fullmatch(str(watermark))
    length = None
    if found is not None and found[2].lower() in UNIT_MICROSECONDS:
        length = duration_us(found[1], found[2])
    if length is None:
        message = f"watermark is a length of time such as '10 seconds', not {watermark!r}"
        refuse("E590", message, "write a number and a unit: seconds, minutes, hours or days")
    return length
