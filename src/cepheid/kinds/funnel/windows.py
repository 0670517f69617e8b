"""Funnels of windows as a step function: its state is the events of open windows (§12.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kinds.funnel.chains import Chains, StepEvents, end, read_events, relevant, take
from cepheid.kinds.funnel.results import reached_levels, result_schema, rows_of
from cepheid.plans.plan import FunnelPlan

FORMAT = Format("funnelled", 1, "a funnel")
_TS, _BITS = "ts", "bits"
_BEFORE_ALL = -(2**63)


class WindowState(NamedTuple):
    """The events of open windows, and the time up to which windows are closed."""

    events: pa.Table | None
    closed: int


class _Snapshot(Meant):
    """The fields of a serialized state."""

    events: bytes | None
    closed: int


class WindowSteps(NamedTuple):
    """A funnel of windows, over events of a schema."""

    plan: FunnelPlan
    schema: pa.Schema

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> WindowState:
        """Create the state before the first event."""
        return WindowState(None, _BEFORE_ALL)

    def step(self, state: WindowState, events: pa.Table) -> tuple[WindowState, pa.Table]:
        """Process events, and close the windows that end by the last of them."""
        return self._counted(self.reach(state, events))

    def advance(self, state: WindowState, until: int) -> tuple[WindowState, pa.Table]:
        """Close the windows that end by a time."""
        return self._counted(self._close(state, until))

    def finish(self, state: WindowState) -> tuple[WindowState, pa.Table]:
        """Close all windows."""
        return self._counted(self.reach_at_end(state))

    def _counted(self, closed: tuple[WindowState, pa.Table | None]) -> tuple[WindowState, pa.Table]:
        return closed[0], rows_of(self.plan, self.schema, closed[1])

    def reach(self, state: WindowState, events: pa.Table) -> tuple[WindowState, pa.Table | None]:
        """Process events; collect the levels in windows that end by the last of them."""
        if not len(events):
            return state, None
        kept, last = self._relevant(events)
        tables = [table for table in (state.events, kept) if table is not None]
        whole = pa.concat_tables(tables) if tables else None
        return self._close(WindowState(whole, state.closed), last)

    def reach_at_end(self, state: WindowState) -> tuple[WindowState, pa.Table | None]:
        """Collect the levels in all windows."""
        if state.events is None:
            return state, None
        last = int(np.asarray(state.events[_TS])[-1])
        return self._close(state, last + self.plan.funnel.within)

    def forget(self, state: WindowState, until: int) -> WindowState:
        """Keep the state: closed windows have left it already."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return result_schema(self.plan, self.schema).empty_table()

    def read(self, data: bytes) -> WindowState:
        """Deserialize a state; E524 if it belongs to another query."""
        snapshot = read_own(FORMAT, data, _Snapshot, (meaning_of(self.plan),), text_of(self.plan))
        events = None if snapshot.events is None else unpack_table(snapshot.events)
        return WindowState(events, snapshot.closed)

    def write(self, state: WindowState) -> bytes:
        """Serialize a state."""
        events = None if state.events is None else pack_table(state.events)
        return write_state(FORMAT, _Snapshot((meaning_of(self.plan),), events, state.closed))

    def size(self, state: WindowState) -> Size:
        """Count the windows that the kept events span."""
        if state.events is None:
            return Size(0, 0)
        times = np.asarray(state.events[_TS])
        span = int(times[-1]) - int(times[0])
        return Size(1, (span + self.plan.funnel.within) // self.plan.funnel.slide)

    def _relevant(self, events: pa.Table) -> tuple[pa.Table | None, int]:
        """Keep the events of steps: times, keys and sets of steps; and tell the last time."""
        columns, keys = Columns(events), KeyTable(self.plan.partition.attributes)
        read = relevant(self.plan, read_events(self.plan, keys, events))
        last = int(np.asarray(columns.ticks(self.plan.time).data)[-1])
        if not len(read.ts):
            return None, last  # Keys of no event have no type.
        numbers = pa.array(read.key)
        values = {f"k{n}": array.take(numbers) for n, array in enumerate(keys.arrays())}
        kept: dict[str, Any] = {_TS: read.ts, _BITS: read.bits.astype(np.int64), **values}
        return pa.table(kept), last

    def _close(self, state: WindowState, until: int) -> tuple[WindowState, pa.Table | None]:
        """Collect the levels in every window that ends after the closed ones and by a time."""
        if state.events is None or until <= state.closed:
            return state, None
        times, bits = np.asarray(state.events[_TS]), np.asarray(state.events[_BITS])
        within, slide = self.plan.funnel.within, self.plan.funnel.slide
        found = []
        for start in self._starts(times[bits & 1 == 1], state.closed, until):
            low, high = np.searchsorted(times, (start, start + within))
            found.append(self._levels(state.events.slice(low, high - low), start))
        tables = [table for table in found if table is not None]
        # An event is in no window that is open once its last one is closed.
        first_open = ((until - within) // slide + 1) * slide
        alive = int(np.searchsorted(times, first_open))
        left = state.events.slice(alive) if alive < len(times) else None
        return WindowState(left, until), pa.concat_tables(tables) if tables else None

    def _starts(self, firsts: NDArray[np.int64], closed: int, until: int) -> list[int]:
        """List the starts of the windows that hold a first step and end in (closed, until]."""
        within, slide = self.plan.funnel.within, self.plan.funnel.slide
        # Window i is [i * slide, i * slide + within).
        highest = (until - within) // slide
        after_closed = (max(closed, -(2**62)) - within) // slide + 1
        numbers: set[int] = set()
        reached = after_closed
        for time in firsts.tolist():
            low = max(reached, (time - within) // slide + 1)
            high = min(highest, time // slide)
            numbers.update(range(low, high + 1))
            reached = max(reached, high + 1)
        return [number * slide for number in sorted(numbers)]

    def _levels(self, events: pa.Table, start: int) -> pa.Table | None:
        """Follow the chains of one window from scratch."""
        keys = KeyTable(self.plan.partition.attributes)
        named: dict[str, Any] = {
            name: events[f"k{n}"] for n, name in enumerate(self.plan.partition.attributes)
        }
        number = Columns(pa.table(named)).numbers(keys)
        chains = Chains.empty(len(self.plan.funnel.steps), len(keys))
        read = StepEvents(np.asarray(events[_TS]), number, np.asarray(events[_BITS]))
        take(self.plan, chains, read, within=0)
        end(self.plan, chains, within=0)
        return reached_levels(self.plan, keys, chains, start)
