"""SELECT as step functions: rows of single events, of windows that have ended, and pairs (§10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.arrays.columns import Columns, read_times
from cepheid.events.files import present
from cepheid.events.schema import ValueKind
from cepheid.jobs.derived import STREAM
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kinds.selection.counted import (
    CountedJob,
    CountedState,
    count_open,
    empty_rows,
    finish_counted,
    step_counted,
)
from cepheid.kinds.selection.counted_snapshot import (
    counted_from_bytes,
    counted_to_bytes,
    moments_from_table,
    stretches_to_table,
)
from cepheid.kinds.selection.groups import group_codes, plain_array
from cepheid.kinds.selection.join import join_tables
from cepheid.kinds.selection.many_join import join_many
from cepheid.kinds.selection.moments import Moments, SumBounds
from cepheid.kinds.selection.operators import ON_CPU, Operators, filter_rows
from cepheid.kinds.selection.windows import (
    Stretches,
    measure,
    merged,
    rows_of_stretches,
    sorted_rows,
    united_stretches,
)
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, Selection, SelectKind

ROWS = Format("selected", 1, "a SELECT")
WINDOWS = Format("windows", 1, "a SELECT")
PAIRS = Format("pairs", 1, "a JOIN")
_ALL = 1 << 62
"""A number of windows that no window reaches."""


class _Nothing(Meant):
    """The state of a filter."""


@dataclass(frozen=True)
class FilterSteps:
    """Rows of single events."""

    plan: SelectPlan
    schema: pa.Schema
    by: Operators = ON_CPU

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> None:
        """Keep nothing."""

    def step(self, state: None, events: pa.Table) -> tuple[None, pa.Table]:
        """Filter events."""
        return state, filter_rows(self.plan.select, events, self.by)

    def advance(self, state: None, until: int) -> tuple[None, pa.Table]:
        """Do nothing: no row waits for a time."""
        del until
        return state, self.nothing()

    def finish(self, state: None) -> tuple[None, pa.Table]:
        """Do nothing: no row waits for the end."""
        return state, self.nothing()

    def forget(self, state: None, until: int) -> None:
        """Do nothing: nothing is kept."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._empty

    @cached_property
    def _empty(self) -> pa.Table:
        return filter_rows(self.plan.select, self.schema.empty_table())

    def read(self, data: bytes) -> None:
        """Check a state; E524 if it belongs to another query."""
        read_own(ROWS, data, _Nothing, (meaning_of(self.plan),), text_of(self.plan))

    def write(self, state: None) -> bytes:
        """Serialize what the query means."""
        del state
        return write_state(ROWS, _Nothing((meaning_of(self.plan),)))

    def size(self, state: None) -> Size:
        """Count nothing."""
        del state
        return Size(0, 0)


class _Windows(Meant):
    """Stretches with their keys."""

    stretches: bytes | None
    kinds: tuple[ValueKind, ...] = ()


@dataclass(frozen=True)
class WindowSteps:
    """Aggregates of windows of time; the state is aggregates between the edges of open windows.

    ``select`` is what is left to do: without WHERE, if only events come for which it is true.
    """

    plan: SelectPlan
    schema: pa.Schema
    select: Selection
    by: Operators = ON_CPU

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> Stretches | None:
        """Create the state before the first event."""
        return None

    def step(self, state: Stretches | None, events: pa.Table) -> tuple[Stretches | None, pa.Table]:
        """Add events; windows leave when time advances."""
        fresh = self._measured(events)
        whole = fresh if state is None else self._united(state, fresh)
        return whole, self.nothing()

    def _united(self, state: Stretches, fresh: Stretches) -> Stretches:
        return merged(self.select.window, united_stretches([state, fresh]))

    def _measured(self, events: pa.Table) -> Stretches:
        # Sums of one step fit 64 bits or are measured in halves; those of a stream are halves.
        found = self.by.measured(self.select, self.plan.time, events, SumBounds())
        if found is None:
            return measure(self.select, self.plan.time, events, lambda _, m: m.widened(), self.by)
        halves = [m.widened() if isinstance(m, Moments) else m for m in found.moments]
        return found._replace(moments=halves)

    def advance(self, state: Stretches | None, until: int) -> tuple[Stretches | None, pa.Table]:
        """Close the windows that end by a time."""
        window = self.select.window
        if window.extent is Extent.NONE:
            return state, self.nothing()
        if window.extent is Extent.SESSION:
            return self._close_sessions(state, until - window.within)
        return self._close(state, (until - window.within) // window.slide)

    def _close_sessions(
        self, state: Stretches | None, last: int
    ) -> tuple[Stretches | None, pa.Table]:
        """Close the sessions whose last event is not after a time."""
        if state is None or not (state.last <= last).any():
            return state, self.nothing()
        ended = _taken(state, np.flatnonzero(state.last <= last))
        kept = _taken(state, np.flatnonzero(state.last > last))
        return (kept if len(kept.rows) else None), self._rows(ended)

    def finish(self, state: Stretches | None) -> tuple[Stretches | None, pa.Table]:
        """Close all windows; without WINDOW, no event gives a row too."""
        if state is None and self.select.window.extent is Extent.NONE:
            return state, self._rows(self._measured(self.schema.empty_table()))
        if self.select.window.extent is Extent.SESSION:
            return self._close_sessions(state, _ALL)
        return self._close(state, _ALL)

    def _close(self, state: Stretches | None, last: int) -> tuple[Stretches | None, pa.Table]:
        """Close the windows up to a number."""
        if state is None or not (state.first <= last).any():
            return state, self.nothing()
        closing = _taken(state, np.flatnonzero(state.first <= last))
        ended = closing._replace(last=np.minimum(closing.last, last))
        kept = _taken(state, np.flatnonzero(state.last > last))
        kept = kept._replace(first=np.maximum(kept.first, last + 1))
        return (kept if len(kept.rows) else None), self._rows(ended)

    def _rows(self, stretches: Stretches) -> pa.Table:
        return rows_of_stretches(self.select, self.plan.time, self.schema, stretches)

    def forget(self, state: Stretches | None, until: int) -> Stretches | None:
        """Keep everything: closed windows are gone."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._empty

    @cached_property
    def _empty(self) -> pa.Table:
        # Steps of a workload have it a thousand times a second.
        return self._rows(self._measured(self.schema.empty_table())).slice(0, 0)

    def read(self, data: bytes) -> Stretches | None:
        """Deserialize a state; E524 if it belongs to another query."""
        own = (meaning_of(self.plan),)
        saved = read_own(WINDOWS, data, _Windows, own, text_of(self.plan))
        if saved.stretches is None:
            return None
        table = unpack_table(saved.stretches)
        keys = [plain_array(table[f"k{n}"]) for n in range(len(self.plan.select.keys))]
        moments = [moments_from_table(table, n, kind) for n, kind in enumerate(saved.kinds)]
        first, last, rows = (np.array(table[name]) for name in ("first", "last", "rows"))
        return Stretches(keys, first, last, rows, moments)

    def write(self, state: Stretches | None) -> bytes:
        """Serialize a state."""
        own = (meaning_of(self.plan),)
        if state is None:
            return write_state(WINDOWS, _Windows(own, None))
        table = stretches_to_table(np.zeros(len(state.rows), np.int64), state)
        for number, key in enumerate(state.keys):
            table = table.append_column(f"k{number}", key)
        kinds = tuple(moment.kind for moment in state.moments)
        return write_state(WINDOWS, _Windows(own, pack_table(table), kinds))

    def size(self, state: Stretches | None) -> Size:
        """Count the groups and the open windows."""
        if state is None or not len(state.rows):
            return Size(0, 0)
        _, groups = group_codes(state.keys, len(state.rows))
        if self.select.window.extent is Extent.SESSION:
            return Size(len(groups), len(state.rows))
        return Size(len(groups), int(state.last.max() - state.first.min() + 1))


def _taken(stretches: Stretches, rows: Any) -> Stretches:
    keys = [key.take(pa.array(rows)) for key in stretches.keys]
    moments = [moment.take(rows) for moment in stretches.moments]
    first, last, counted = (
        values[rows] for values in (stretches.first, stretches.last, stretches.rows)
    )
    return Stretches(keys, first, last, counted, moments)


class CountedSteps(NamedTuple):
    """Aggregates of windows of events."""

    job: CountedJob

    @property
    def plan(self) -> SelectPlan:
        """Return the plan."""
        return self.job.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> CountedState:
        """Create the state before the first event."""
        return CountedState.start(self.job)

    def step(self, state: CountedState, events: pa.Table) -> tuple[CountedState, pa.Table]:
        """Count the events for which WHERE is true; return the rows of windows they fill."""
        kept = self.job.by.keep(events, self.job.select.condition)
        state, rows = step_counted(self.job, state, kept)
        return state, self._in_order(rows)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        starts = np.asarray(rows["window_start"].to_numpy())
        return sorted_rows(self.job.select, rows, starts)[0]

    def advance(self, state: CountedState, until: int) -> tuple[CountedState, pa.Table]:
        """Do nothing: events fill windows, not time."""
        del until
        return state, self.nothing()

    def finish(self, state: CountedState) -> tuple[CountedState, pa.Table]:
        """Return the rows of windows that are not full."""
        return state, self._in_order(finish_counted(self.job, state))

    def forget(self, state: CountedState, until: int) -> CountedState:
        """Keep everything: a group continues its count."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return empty_rows(self.job)

    def read(self, data: bytes) -> CountedState:
        """Deserialize a state; E524 if it belongs to another query."""
        return counted_from_bytes(self.job, data)

    def write(self, state: CountedState) -> bytes:
        """Serialize a state."""
        return counted_to_bytes(self.job, state)

    def size(self, state: CountedState) -> Size:
        """Count the groups and their open windows."""
        return Size(len(state.seen), count_open(self.job, state))


class _Pairs(Meant):
    """The last events of both streams, and of further ones."""

    left: bytes
    right: bytes
    further: tuple[bytes, ...] = ()


class JoinSteps(NamedTuple):
    """Pairs of events, or tuples; the state is the events of all streams that windows hold.

    Columns of the first stream have the prefix ``0:``, those of the second ``1:`` and so on, and
    the column ``__stream`` tells them apart; one that is joined with itself is there once.
    """

    plan: SelectPlan
    schemas: tuple[pa.Schema, ...]
    by: Operators = ON_CPU

    @staticmethod
    def of(plan: SelectPlan, schema: pa.Schema) -> JoinSteps:
        """Create the steps over events of all streams."""
        schemas = [
            pa.schema([(f.name[2:], f.type) for f in schema if f.name.startswith(f"{place}:")])
            for place in places_of(plan)
        ]
        return JoinSteps.apart(plan, schemas)

    @staticmethod
    def apart(plan: SelectPlan, schemas: Sequence[pa.Schema], by: Operators = ON_CPU) -> JoinSteps:
        """Create the steps over streams of these schemas, which come each on its own."""
        read = tuple(_read(plan, one, side) for side, one in enumerate(schemas))
        return JoinSteps(plan, read, by)

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> list[pa.Table]:
        """Create the state before the first event."""
        return [schema.empty_table() for schema in self.schemas]

    def step(self, state: list[pa.Table], events: pa.Table) -> tuple[list[pa.Table], pa.Table]:
        """Pair events with each other and with those that are kept."""
        return self.met(state, [self._side(events, side) for side in range(len(state))])

    def met(self, state: list[pa.Table], fresh: list[pa.Table]) -> tuple[list[pa.Table], pa.Table]:
        """Pair the new events of each stream with each other and with those that are kept."""
        tables = [pa.concat_tables([old, new]) for old, new in zip(state, fresh, strict=True)]
        rows = self._joined(tables, list(map(len, state)))
        times = (read_times(Columns(table), self.plan.time) for table in fresh if len(table))
        last = max((int(one[-1]) for one in times), default=None)
        return [self._kept(table, last, side) for side, table in enumerate(tables)], rows

    def _joined(self, tables: list[pa.Table], begins: list[int]) -> pa.Table:
        select, time = self.plan.select, self.plan.time
        if len(tables) > 2:
            return join_many(select, time, tables, begins, self.by)
        return join_tables(select, time, tables, (begins[0], begins[1]), by=self.by)

    def _side(self, events: pa.Table, side: int) -> pa.Table:
        """Take the events of a stream out of those of all."""
        place = places_of(self.plan)[side]
        if STREAM in events.column_names:
            events = events.filter(pc.equal(events[STREAM], pa.scalar(place, pa.int8())))
        prefix = f"{place}:"
        schema = self.schemas[side]
        return pa.table([events[prefix + name] for name in schema.names], schema=schema)

    def _kept(self, table: pa.Table, last: int | None, side: int) -> pa.Table:
        window = self.plan.select.window
        within = window.lengths_of(len(self.schemas))[side]
        if window.extent is Extent.EVENTS:
            return table.slice(max(len(table) - within, 0))
        if last is None:
            return table
        times = read_times(Columns(table), self.plan.time)
        return table.slice(int(np.searchsorted(times, last - within, side="right")))

    def advance(self, state: list[pa.Table], until: int) -> tuple[list[pa.Table], pa.Table]:
        """Forget events that no later one is near enough to."""
        return self.forget(state, until), self.nothing()

    def finish(self, state: list[pa.Table]) -> tuple[list[pa.Table], pa.Table]:
        """Do nothing: no pair waits for the end."""
        return state, self.nothing()

    def forget(self, state: list[pa.Table], until: int) -> list[pa.Table]:
        """Forget events that no later one is near enough to."""
        window = self.plan.select.window
        if window.extent is Extent.EVENTS:
            return state
        kept = []
        for table, within in zip(state, window.lengths_of(len(state)), strict=True):
            times = read_times(Columns(table), self.plan.time)
            kept.append(table.slice(int(np.searchsorted(times, until - within, "right"))))
        return kept

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._replace(by=ON_CPU)._joined(self.start(), [0] * len(self.schemas))

    def read(self, data: bytes) -> list[pa.Table]:
        """Deserialize a state; E524 if it belongs to another query."""
        saved = read_own(PAIRS, data, _Pairs, (meaning_of(self.plan),), text_of(self.plan))
        return [unpack_table(table) for table in (saved.left, saved.right, *saved.further)]

    def write(self, state: list[pa.Table]) -> bytes:
        """Serialize a state."""
        left, right, *further = map(pack_table, state)
        pairs = _Pairs((meaning_of(self.plan),), left, right, tuple(further))
        return write_state(PAIRS, pairs)

    def size(self, state: list[pa.Table]) -> Size:
        """Count the window of both streams."""
        return Size(1, int(any(map(len, state))))


def places_of(plan: SelectPlan) -> list[int]:
    """Find the input of each stream of a join: streams of one name are one input."""
    names = list(dict.fromkeys(plan.streams))
    return [names.index(name) for name in plan.streams]


def _read(plan: SelectPlan, schema: pa.Schema, side: int) -> pa.Schema:
    """Drop columns that a stream does not read."""
    reads = plan.select.streams[side].reads
    names = schema.names if reads is None else present(schema.names, reads)
    return pa.schema([schema.field(name) for name in names])


SelectSteps = FilterSteps | WindowSteps | CountedSteps | JoinSteps


def steps_of_select(plan: SelectPlan, schema: pa.Schema, by: Operators = ON_CPU) -> SelectSteps:
    """Create the step function of a SELECT that is a stage; a join runs on the CPU."""
    select = plan.select
    if select.kind is SelectKind.JOIN:
        return JoinSteps.of(plan, schema)
    if select.kind is SelectKind.FILTER:
        return FilterSteps(plan, schema, by)
    if select.window.extent is Extent.EVENTS:
        return CountedSteps(CountedJob.of(plan, schema, by))
    return WindowSteps(plan, schema, select, by)
