"""A live query in one process: feed events, get the rows that no later event can change."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic, UnsupportedError
from cepheid.events.arriving import as_table, like, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.temporal import FOREVER, LONG_AGO, TIME_MAX, length_us
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.jobs.bucket import Arrived, bucket_of, open_bucket, write_bucket
from cepheid.jobs.continuing import continued
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import ordered
from cepheid.jobs.room import roomy
from cepheid.jobs.steps import HasWindows, Steps, is_a, take_until
from cepheid.jobs.tables import with_columns
from cepheid.jobs.watermarks import in_ticks
from cepheid.jobs.work import Work
from cepheid.options import refuse
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import CompiledQueryLike
from cepheid.runtimes.single_events import SingleEvents

KIND = "a live query in one process"
"""The name of its state, for messages."""

GATHERED_ROWS = 1 << 13
"""So many events are processed at once, at most, while no row can leave.

The step that closes windows waits for those that are left: of twice as many, half again as long.
"""

GATHERED_FOR_DEVICE = 1 << 20
"""The same where a GPU may process them, which needs many."""

FORGET_STEPS = 8
"""Keys without a window are dropped after so many steps; most of them come again in the next."""

SINGLE_ROWS = 1 << 10
"""So many single events become a table, which takes a millisecond; rows must not wait for more."""


class LiveQuery:
    """A query that runs over a stream batch by batch; made by :meth:`CompiledQuery.live`.

    The watermark is the latest time so far, less the allowed lateness. Events wait until it passes
    them, are sorted, and leave their rows. Those behind it are late: they are dropped and counted.
    Events are gathered while the watermark passes the end of no window, because a step of a
    thousand events takes hardly longer than one of a single event.
    """

    def __init__(
        self, compiled: CompiledQueryLike, schema: pa.Schema, watermark: str, state: bytes | None,
        device: str = "cpu",
    ) -> None:  # fmt: skip
        self._times = compiled.times
        schema = timed_schema(plain_schema(schema), self._times)
        started = _Started.of(compiled.with_schema(schema).plan, schema, device)
        before = open_bucket(KIND, state)
        started, self._work = continued(started, started.work, before, KIND)
        self._job, self._plan = started.job, started.job.plan
        self._delay = in_ticks(self._work, length_of(watermark))
        saved = bucket_of(self._work, before, KIND, same_columns=True)
        self._until, self._waiting = saved.until, saved.buffer
        self._state = self._job.start() if not saved.engine else self._job.read(saved.engine)
        self._nothing = self._job.nothing()
        self._schema = self._work.schema
        self._is_flat = not any(map(_has_parts, self._schema.types))
        self._time_place = self._schema.get_field_index(self._plan.time)
        time = self._schema.field(self._time_place).type if self._time_place >= 0 else pa.null()
        self._is_micros = pa.types.is_timestamp(time) and time.unit == "us"
        self._gathered: list[pa.Table] = []
        self._gathered_rows = self._steps = 0
        self._gathered_most = GATHERED_ROWS if device == "cpu" else GATHERED_FOR_DEVICE
        self._singles = SingleEvents(self._schema, self._plan.time)
        self._latest = self._rows_at = LONG_AGO
        if len(self._waiting):
            self._latest = int(read_times(Columns(self._waiting), self._plan.time)[-1])
        self.late = 0
        """The number of events that were behind the watermark."""

    @property
    def waiting(self) -> int:
        """Count the events that wait for the watermark."""
        until = LONG_AGO if self._until is None else self._until
        tables = [self._waiting, *self._gathered_tables()]
        times = [read_times(Columns(table), self._plan.time) for table in tables]
        return sum(int((one >= until).sum()) for one in times)

    def feed(self, events: Any) -> Any:
        """Process events; return the rows that are final, in the same kind of container.

        A single event is a dict. Events of other columns or types are refused, and change nothing.
        """
        if isinstance(events, dict):
            return self._feed_one(events)
        if self._is_flat and isinstance(events, pa.Table) and events.schema.equals(self._schema):
            return self._feed(events)
        return like(events, self._feed(self._converted(events)))

    def _feed_one(self, event: dict[str, Any]) -> pa.Table:
        """Gather one event; process it if rows can leave, or many have come."""
        time = self._singles.add(event)
        if time is None:
            return self._feed(self._converted(event))
        if self._until is not None and time < self._until:
            self._singles.drop_last()
            self.late += 1
            return self._nothing
        if len(self._singles) == SINGLE_ROWS:
            self._gathered_tables()
        return self._pass(time)

    def _converted(self, events: Any) -> pa.Table:
        """Convert events in any container to the columns of the query."""
        came = [events] if isinstance(events, dict) else events
        if isinstance(came, list) and not came:
            came = self._schema.empty_table()
        table = in_units_of(timed_table(as_table(came), self._times), self._schema)
        # A dict may lack what an event does not have; a table has columns for all of its events.
        return fitted(table, self._schema, whole=not isinstance(came, list))

    def _feed(self, table: pa.Table) -> pa.Table:
        """Gather events; process them if rows can leave, or many have come."""
        if not len(table):
            return self._nothing
        times = self._times_of(table)
        latest = int(times.max())
        if self._until is not None and int(times.min()) < self._until:
            early = times < self._until
            self.late += int(early.sum())
            if early.all():
                return self._nothing
            table = table.filter(pa.array(~early))
        self._gathered_tables().append(table)
        self._gathered_rows += len(table)
        return self._pass(latest)

    def _times_of(self, table: pa.Table) -> NDArray[np.int64]:
        """Read the times of events; a small batch of plain ones without a look at the rest."""
        column = table.column(self._time_place) if self._is_micros else None
        if column is not None and column.num_chunks == 1 and not column.null_count:
            times: NDArray[np.int64] = column.chunk(0).to_numpy().view(np.int64)
            if times.min() >= -TIME_MAX and times.max() <= TIME_MAX:
                return times
        return read_times(Columns(table), self._plan.time)

    def _pass(self, latest: int) -> pa.Table:
        """Let the watermark follow the latest event that came; return the rows that leave."""
        if latest > self._latest:
            self._latest = latest
        until = self._latest - self._delay
        if self._until is not None and until <= self._until:
            return self._nothing
        gathered = self._gathered_rows + len(self._singles)
        if until < self._rows_at and gathered < self._gathered_most:
            self._until = until
            return self._nothing
        return self._take(until)

    def _gathered_tables(self) -> list[pa.Table]:
        """Return the gathered events in the order in which they came."""
        if len(self._singles):
            self._gathered_rows += len(self._singles)
            self._gathered.append(self._singles.take())
        return self._gathered

    def close(self) -> pa.Table:
        """End the stream: return the rows of all events that still wait and windows still open."""
        if self._until == FOREVER:
            return self._nothing
        rows = self._take(FOREVER)
        # No time ends windows that are counted in events (§6.6).
        self._state, rest = self._job.finish(self._state)
        return pa.concat_tables([rows, rest]) if len(rest) else rows

    def save(self) -> bytes:
        """Serialize the state, for ``q.live(schema, state=...)``; late events are counted anew."""
        if self._gathered_tables() and self._until is not None:
            self._take(self._until)  # Events are gathered only while no row can leave.
        if self._until is not None:
            self._state = self._job.forget(self._state, self._until)
        empty = self._work.schema.empty_table()
        came = Arrived(0, empty, self._until, empty, self._waiting, 0, empty)
        return write_bucket(self._work, KIND, came, self._job.write(self._state))

    def _sort(self) -> NDArray[np.int64]:
        """Put the gathered events among those that wait; return their times."""
        # Many small chunks would each be read on their own.
        together = pa.concat_tables([self._waiting, *self._gathered_tables()]).combine_chunks()
        self._waiting, self._gathered, self._gathered_rows = ordered(together, self._plan), [], 0
        return read_times(Columns(self._waiting), self._plan.time)

    def _take(self, until: int) -> pa.Table:
        """Let the watermark pass events; return the rows that leave."""
        count = int(np.searchsorted(self._sort(), until))
        ready, later = self._waiting.slice(0, count), self._waiting.slice(count)
        state, found = roomy(take_until)(self._job, self._state, ready, until)
        self._steps += 1
        if self._steps % FORGET_STEPS == 0:
            state = self._job.forget(state, until)
        # Only now, so that events stay here if one of them raises an error.
        self._state, self._waiting, self._until = state, later, until
        if is_a(type(self._job), HasWindows):
            self._rows_at = cast("HasWindows", self._job).next_rows(until)
        rows = [table for table in found if len(table)]
        return pa.concat_tables([self._nothing, *rows]) if rows else self._nothing


class _Started(NamedTuple):
    """The step function of a query, and its parameters."""

    job: Steps[Any]
    work: Work
    device: str

    @staticmethod
    def of(plan: Plan, schema: pa.Schema, device: str) -> _Started:
        job = _steps(plan, schema, device)
        return _Started(job, Work.of(plan, schema, job.nothing().schema, 1), device)

    def with_work(self, work: Work) -> _Started:
        """Go on with the state of a query that differs in what does not matter."""
        return _Started(_steps(work.planned(), work.schema, self.device), work, self.device)


def _has_parts(kind: pa.DataType) -> bool:
    """Check whether values of a type may have to be converted, though the type fits."""
    return pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind)


def _steps(plan: Any, schema: pa.Schema, device: str) -> Steps[Any]:
    """Create the step function of a query, if it has one over a stream without end.

    Raises
    ------
    UnsupportedError
        E404 if there are two streams or rows of open windows, E405 if no row leaves before the end,
        E551, E552 or E554 if a GPU was requested, and is not there, cannot run it or does not work.
    """
    kind = kind_of(plan)
    kind.check_live(plan)
    if device != "cpu" and not plan.emits_early:
        # Looks for a device, which loads numba.
        from cepheid.runtimes.device import live_steps_on

        steps_there: Steps[Any] | None = live_steps_on(plan, schema, device)
        if steps_there is not None:
            return steps_there
    why = f"{plan.what} does not run live in one process"
    if plan.emits_early:
        why = "EMIT EARLY reports open windows at the end of each micro-batch, which Spark has"
    elif len(plan.streams) < 2:
        steps: Steps[Any] | None = kind.stage_steps(plan, schema)
        if steps is not None:
            return steps
    raise UnsupportedError([Diagnostic("E404", why, helps=("use `q.stream`",))], plan.text)


def fitted(events: pa.Table, schema: pa.Schema, *, whole: bool) -> pa.Table:
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


def length_of(watermark: str) -> int:
    """Parse the allowed lateness, in microseconds."""
    length = length_us(str(watermark))
    if length is None:
        message = f"watermark is a length of time such as '10 seconds', not {watermark!r}"
        refuse("E590", message, "write a number and a unit: seconds, minutes, hours or days")
    return length
