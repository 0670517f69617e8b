"""Count plain patterns in windows that do not overlap, from columns straight to rows.

The commonest query counts matches under skip-till-any-match, by one key, in windows of one length.
Its windows are the same for all keys, so the events of a batch are counted in one pass over their
times, the numbers of their types and their keys (``kernels/tumbling.py``). Whole numbers of a small
range are places of counts themselves; other keys are numbered. What this pass cannot count, such as
events of one key and time (§1.3), goes on by steps, with the counts so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, notice_types, read_times
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.owned import Owned
from cepheid.kernels.linear import OK
from cepheid.kernels.tumbling import (
    OPENED,
    UNSORTED,
    check_times,
    close_all,
    count_tumbling,
    has_tied_keys,
)
from cepheid.kinds.trend.program.job import UNKNOWN_CODE, Job
from cepheid.kinds.trend.program.linear_state import LinearRun, Rows
from cepheid.kinds.trend.program.partials import owned_rows
from cepheid.kinds.trend.program.program import Plain
from cepheid.kinds.trend.program.results import Added, build_added, build_table
from cepheid.kinds.trend.program.row_order import order_of
from cepheid.kinds.trend.windows.step import PartitionState, check_order, waits
from cepheid.language import tree
from cepheid.plans.plan import OutputKind, WindowKind

ROWS_MIN = 1 << 14
"""Smaller first batches are counted step by step: a kernel would cost more than it gains."""

PLACES_MIN, PLACES_MAX = 1 << 14, 1 << 22
"""Keys in a range up to the first are always places; beyond the second they never are."""

MASK_BITS = 8
"""Variables whose sets fit a byte; other queries have codes that are not looked up in a table."""

SHARE = 4
"""Between them they are if the range is at most so many times as long as a batch."""


CACHE_BYTES = 8 << 20
"""The counts of one thread that leave room for those of others in a processor's cache."""


class _Events(NamedTuple):
    """Events of a batch: numbers of types with what they change, and places of keys."""

    times: NDArray[np.int64]
    types: NDArray[Any]
    target: NDArray[np.int64]
    source: NDArray[np.int64]
    key: NDArray[Any]
    rows: NDArray[np.int64] | None
    """The rows of the events in their batch, None if they are all of it."""


def plain_windows(job: Job) -> PlainWindows | None:
    """Return the counts of a job before its first event; None if it needs other steps."""
    plan, output = job.plan, job.plan.output
    by = plan.partition
    fits = (
        plan.window.kind is WindowKind.TUMBLING
        and output.kind is OutputKind.AGGREGATES
        and not (job.looks_back or job.extremes or job.moduli or output.counts_keys)
        and len(job.programs) == len(job.parts) == len(by.attributes) == 1
        and by.group_by == by.attributes
        and not by.partial
        and job.marked is None
        and plan.skip is None
        and plan.semantics is tree.Semantics.ANY_MATCH
        and plan.links is None
    )
    plain = job.programs[0].plain() if fits else None
    return None if plain is None else PlainWindows(job, plain)


def counts_plainly(job: Job, rows: int) -> bool:
    """Check whether a table of so many events is counted straight from its columns."""
    return rows >= ROWS_MIN and plain_windows(job) is not None


def shares_cache(job: Job, batch: pa.Table) -> bool:
    """Check whether the counts of keys like those of a batch leave room in the cache for others.

    Threads have counts of their own. Where these do not fit side by side, each event waits for
    memory, and one thread alone takes half of the time of two.
    """
    windows = plain_windows(job)
    if windows is None or not len(batch):
        return True
    column = Columns(batch).arrow(job.plan.partition.attributes[0])
    if pa.types.is_dictionary(column.type):
        chunks: list[Any] = column.chunks
        places = max(len(chunk.dictionary) for chunk in chunks)
    elif _is_whole(column) and column.null_count < len(column):
        values = _values(column.drop_null() if column.null_count else column)
        places = min(int(values.max()) - int(values.min()) + 1, PLACES_MAX)
    else:
        return True
    return places * windows.place_bytes <= CACHE_BYTES


class PlainWindows:
    """The counts of all keys in the open window, and the rows of those before it."""

    def __init__(self, job: Job, plain: Plain) -> None:
        self.job, self._plain = job, plain
        self._size = job.programs[0].size
        self._counts = job.programs[0].tables().counts
        self._width = job.plan.window.within
        # The numbers of keys; unused while whole numbers are places themselves.
        self._keys = KeyTable(job.plan.partition.attributes)
        self._is_range: bool | None = None
        self._lowest: Any = np.int64(0)
        self._slots = np.zeros((0, self._size + 2))
        self._exponent = np.zeros(0, np.int64)
        self._state = np.array([LONG_AGO, 0, 0])
        self._found: list[Rows] = []
        self._held: pa.Table | None = None
        self._last: int | None = None
        self._is_narrow = False

    @property
    def place_bytes(self) -> int:
        """Return the bytes of the counts of a key."""
        return 8 * (self._size + 3)

    def feed_all(self, batches: Iterator[pa.Table]) -> pa.Table | None:
        """Count batches; return the first events that must be fed otherwise, None if none must."""
        for batch in batches:
            if self._last is None and len(batch) < ROWS_MIN:
                return batch
            rest = self._feed(batch)
            if rest is not None:
                return rest
        return self._count_held()

    def _feed(self, batch: pa.Table) -> pa.Table | None:
        columns, name = Columns(batch), self.job.plan.time
        times = read_times(columns, name)
        if not len(times):
            return None
        back, ties = check_times(times)
        if back or (self._last is not None and times[0] < self._last):
            check_order(times, self._last, name, 0)
        if self._held is not None and times[0] == self._last:
            # Events of one time may have one key.
            batch, self._held, ties = pa.concat_tables([self._held, batch]), None, True
            columns = Columns(batch)
            times = read_times(columns, name)
        events = self._read(columns, times)
        together = waits(self.job.plan)
        if events is None or (ties and together and self._has_ties(events)):
            return batch
        rest = self._count_held()
        if rest is not None:
            return pa.concat_tables([rest, batch])
        ready = int(np.searchsorted(events.times, times[-1])) if together else len(events.times)
        rest = self._count(batch, events, ready)
        if rest is None:
            self._last = int(times[-1])
            first = int(np.searchsorted(times, times[-1]))
            self._held = batch.slice(first) if together else None
        return rest

    def _count_held(self) -> pa.Table | None:
        """Count the events of the last time, of which no more come."""
        held, self._held = self._held, None
        if held is None:
            return None
        columns = Columns(held)
        events = self._read(columns, read_times(columns, self.job.plan.time))
        assert events is not None, "they were read before"
        return self._count(held, events, len(events.times))

    # Columns to arrays ---------------------------------------------------------------------------

    def _read(self, columns: Columns, times: NDArray[np.int64]) -> _Events | None:
        """Read the events that have a key; None if they cannot be counted here."""
        coded = self._types(columns)
        found = None if coded is None else self._places(columns)
        if coded is None or found is None:
            return None
        types, target, source = coded
        key, rows = found
        if rows is not None:
            times, types = times[rows], types[rows]
        return _Events(times, types, target, source, key, rows)

    def _types(self, columns: Columns) -> tuple[NDArray[Any], ...] | None:
        """Return the number of every event's type, and the slots that a number changes and adds."""
        job, plan = self.job, self.job.plan
        named = plan.type is not None and plan.type in columns.batch.column_names
        column: Any = columns.encoded(plan.type) if named and plan.type is not None else None
        kinds = list(job.types.values())
        if len(kinds) > MASK_BITS:
            return None
        if column is None or plan.local or column.num_chunks != 1:
            types = job.bits_of(columns)
            masks = np.arange(1 << MASK_BITS)
            seen = np.bincount(types, minlength=len(masks)) > 0
        else:
            notice_types(columns, plan.type)
            chunk = column.chunk(0)
            names = [*map(str, chunk.dictionary.to_pylist()), None]
            masks = np.array([_mask_of(name, kinds) for name in names])
            seen = np.ones(len(masks), np.bool_)
            indices = chunk.indices
            if indices.null_count:
                indices = indices.cast(pa.int64()).fill_null(len(names) - 1)
            types = indices.to_numpy(zero_copy_only=False)
            if types.dtype not in (np.int8, np.int32):
                types = types.astype(np.int32)
        codes = job.byte_codes(job.programs[0])[masks]
        unknown = codes == UNKNOWN_CODE
        if (unknown & seen).any():
            return None
        return types, *self._slots_of(np.where(unknown, 0, codes))

    def _slots_of(self, codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Look up the slots that codes change and add; the slot zero where nothing changes."""
        zero = self._size + 1
        target, source = self._plain.target[codes], self._plain.source[codes]
        wide = np.full((len(codes), max(2, source.shape[1])), zero)
        wide[:, : source.shape[1]] = np.where(target[:, None] < 0, zero, source)
        return np.where(target < 0, zero, target), wide

    def _places(self, columns: Columns) -> tuple[NDArray[Any], NDArray[np.int64] | None] | None:
        """Return the keys of events, and their rows if others have no key; make room for them."""
        column = columns.arrow(self.job.plan.partition.attributes[0])
        if self._is_range is None:
            self._is_range = _is_small_range(column)
        if not self._is_range:
            key = columns.numbers(self._keys)
            if len(self._keys) > len(self._slots):
                self._make_room(0, max(len(self._keys), 2 * len(self._slots)))
            if not (key < 0).any():
                return key, None
            keyed = np.flatnonzero(key >= 0)
            return key[keyed], keyed
        if not _is_whole(column):
            return None
        rows: NDArray[np.int64] | None = None
        if column.null_count:
            rows = np.flatnonzero(np.asarray(column.is_valid()))
            column = column.drop_null()
        values = _values(column)
        if not len(values):
            return values, rows
        low, high = int(values.min()), int(values.max())
        if len(self._slots):
            low = min(low, int(self._lowest))
            high = max(high, int(self._lowest) + len(self._slots) - 1)
        if high - low >= PLACES_MAX:
            return None
        if high - low >= len(self._slots) and not self._take_spare(low, high):
            self._make_room(low, high - low + 1)
        return values, rows

    def _take_spare(self, low: int, high: int) -> bool:
        """Take over the places of a range of time that is done; fresh memory is expensive."""
        while not len(self._slots):
            try:
                slots, exponent, lowest = self.job.spare.pop()
            except IndexError:  # Another thread may have taken the last ones.
                return False
            if lowest <= low and high < int(lowest) + len(slots):
                self._slots, self._exponent, self._lowest = slots, exponent, lowest
                return True
        return False

    def _make_room(self, lowest: int, places: int) -> None:
        """Let places begin at a key that is not higher than before, and be more."""
        slots, exponent = np.zeros((places, self._size + 2)), np.zeros(places, np.int64)
        slots[:, self._size] = 1.0
        first = int(self._lowest) - lowest if len(self._slots) else 0
        slots[first : first + len(self._slots)] = self._slots
        exponent[first : first + len(self._slots)] = self._exponent
        self._slots, self._exponent, self._lowest = slots, exponent, np.int64(lowest)

    # Counting ------------------------------------------------------------------------------------

    def _has_ties(self, events: _Events) -> bool:
        last = np.full(len(self._slots), LONG_AGO)
        return bool(has_tied_keys(events.times, events.key, self._lowest, last))

    def _count(self, batch: pa.Table, events: _Events, ready: int) -> pa.Table | None:
        """Count the first events of a batch; return the rest if doubles cannot count them."""
        out = self._room(ready)
        status, done, rows = count_tumbling(
            self._slots, self._exponent, events.target, events.source, self._counts,
            events.times[:ready], events.types[:ready], events.key[:ready], self._lowest,
            self._width, self._state, *out,
        )  # fmt: skip
        self._keep(rows, *out)
        if status == OK:
            return None
        self._is_narrow = True
        if events.rows is not None:
            done = int(events.rows[done]) if done < len(events.rows) else len(batch)
        return batch.slice(done)

    def _room(self, events: int) -> tuple[NDArray[Any], ...]:
        room = events + len(self._slots)
        return (
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty((room, 1), np.complex128),
        )

    def _keep(self, rows: int, *out: NDArray[Any]) -> None:
        if rows:
            # A view would keep the buffer of all rows alive.
            key, window, numbers = (array[:rows].copy() for array in out)
            self._found.append(Rows(key, window, numbers, np.zeros((rows, 0), np.int64)))

    # Results -------------------------------------------------------------------------------------

    def table(self, schema: pa.Schema, owned: Owned) -> pa.Table:
        """Build the result after the last event; only windows that start in a range count."""
        out = self._room(0)
        rows = close_all(
            self._slots, self._exponent, self._counts, self._lowest, self._state, *out, 0
        )
        self._keep(rows, *out)
        if self._is_range:
            self.job.spare.append((self._slots, self._exponent, self._lowest))
        found = owned_rows(self.job, [self._found], owned)[0]
        if not self._is_range or not sum(len(one.key) for one in found):
            return build_table(self.job, [found], self._keys, schema)
        key, window, numbers, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        lowest = int(key.min())
        group = key - lowest
        if self._state[UNSORTED]:
            order = order_of(Rows(key, window, numbers, values), group, self.job.plan.window)
            group, window, numbers = group[order], window[order], numbers[order]
        # The number behind the last key may not fit 64 bits.
        every = pa.array(np.arange(int(key.max()) - lowest + 1) + lowest)
        return build_added(self.job, Added(window, group, numbers, values), [every], schema)

    def hand_over(self) -> tuple[PartitionState, list[Rows]]:
        """Return the state from which steps go on, and the rows so far."""
        state = PartitionState(self.job)
        state.held, state.last = self._held, self._last
        if not len(self._slots):
            return state, []
        found, places = self._found, np.arange(len(self._keys))
        if self._is_range:
            used = np.flatnonzero((self._slots[:, : self._size] != 0).any(axis=1))
            names = np.unique(np.concatenate([used + self._lowest, *(one.key for one in found)]))
            state.keys.restore([pa.array(names)])
            found = [one._replace(key=np.searchsorted(names, one.key)) for one in found]
            places = names - self._lowest
        else:
            state.keys = self._keys
        run = state.runs[0]
        assert isinstance(run, LinearRun), "windows that do not overlap, without SKIP"
        run.grow(len(places))
        keys, slots = len(places), self._slots[places]
        run.V[:keys, :, 0, 0], run.one[:keys, 0] = slots[:, : self._size], slots[:, self._size]
        run.exponent[:keys, 0], run.opened[:keys] = self._exponent[places], self._state[OPENED]
        if self._is_narrow:
            run.widen()
        return state, found


def _mask_of(name: str | None, kinds: list[str]) -> int:
    """Return the variables that a type fits, as bits (§1.2)."""
    return sum(1 << n for n, kind in enumerate(kinds) if kind in (name, tree.ANY_TYPE))


def _is_whole(column: Any) -> bool:
    return pa.types.is_integer(column.type) and column.type != pa.uint64()


def _is_small_range(column: Any) -> bool:
    """Check whether the values of a column are whole numbers that can be places."""
    if not _is_whole(column) or column.null_count == len(column):
        return False
    values = _values(column.drop_null() if column.null_count else column)
    most = max(PLACES_MIN, min(PLACES_MAX, SHARE * len(values)))
    return int(values.max()) - int(values.min()) < most


def _values(column: Any) -> NDArray[Any]:
    """Return whole numbers in one of the types that the kernels are compiled for."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values = np.asarray(array)
    return values if values.dtype == np.int32 else values.astype(np.int64, copy=False)
