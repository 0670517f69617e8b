"""The counts that a linear program keeps between batches, and the calls of its kernels.

A run is one program in one number format. Doubles share an exponent per key and lane; when a double
can no longer span the smallest and the largest count, the run switches to wide numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.events.temporal import LONG_AGO
from cepheid.kernels import closing, counting, linear, panes
from cepheid.kinds.trend.program import open_keys
from cepheid.kinds.trend.program.open_keys import OpenKeys
from cepheid.kinds.trend.program.pane_blocks import copy_block, new_block
from cepheid.kinds.trend.program.program import Closing, Moving, Plain, Program
from cepheid.kinds.trend.program.wide import fit_doubles, numbers_of, wide_of
from cepheid.language import tree
from cepheid.plans.plan import WindowKind, WindowPlan

NO_VALUE = np.iinfo(np.int64).max
ROWS_ROOM = 1 << 14

SEMANTICS_CODES = {
    tree.Semantics.ANY_MATCH: linear.ANY,
    tree.Semantics.NEXT_MATCH: linear.NEXT,
    tree.Semantics.CONTIGUOUS: linear.CONTIGUOUS,
    # Links close by the letters of a program.
    tree.Semantics.BY_LINK: linear.ANY,
}
DOUBLE, WIDE, RESIDUE = np.dtype(np.float64), np.dtype(np.complex128), np.dtype(np.uint64)


class Events(NamedTuple):
    """The kernel input for the events of a batch.

    ``weights`` and ``values`` have one extra row, of zeros and of no values.
    """

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    codes: NDArray[Any]
    weights: NDArray[Any]
    values: NDArray[np.int64]
    grouped: bool


class Rows(NamedTuple):
    """Results of windows: key, start (or end pane), aggregates (wide or residues), value keys."""

    key: NDArray[np.int64]
    window: NDArray[np.int64]
    numbers: NDArray[Any]
    values: NDArray[np.int64]


class LinearRun:
    """One program, in one number format, over all keys."""

    def __init__(
        self, program: Program, window: WindowPlan, columns: tuple[Any, Any], modulus: int = 0
    ) -> None:
        self.program = program
        self.window = window
        self.wcol, self.xcol = columns
        self.modulus = np.uint64(modulus)
        self.dtype: np.dtype[Any] = RESIDUE if modulus else DOUBLE
        self.sliding = window.kind is WindowKind.SLIDING
        # Sliding windows have a lane each (``apart_state.py``), instead of panes.
        self.apart = self.large = False
        self.keys = 0
        self.shape = (0, 0)
        parts, mins = self.wcol.shape[1], self.xcol.shape[1]
        self.V = np.zeros((0, 0, parts, 0), self.dtype)
        self.M = np.zeros((0, 0, mins, 0), np.int64)
        self.start = np.zeros((0, 0), np.int32)
        self.one = np.zeros((0, 0), self.dtype)
        self.exponent = np.zeros((0, 0), np.int64)
        self.opened = np.zeros(0, np.int64)
        self.dirty = np.zeros(0, np.bool_)
        self.block: tuple[NDArray[Any], ...] = ()
        # The layout of the kernels for plain counts; V and one are views of it while it exists.
        self._slots: NDArray[np.float64] | None = None
        # None where there are few keys, or until the next events of a run that was read or cut.
        self._open: OpenKeys | None = None
        # Windows that do not overlap end together, and the next ones not before this time.
        self._next_end = LONG_AGO

    ARRAYS = ("V", "M", "start", "one", "exponent", "opened", "dirty")

    @property
    def lanes(self) -> int:
        """Count the lanes: one, or for panes one for each incoming configuration."""
        if self.apart:
            return self.window.within // self.window.slide
        return self.program.start_size + self.program.size if self.sliding else 1

    def copy(self) -> LinearRun:
        """Copy the run, so that both can continue independently."""
        other = self._like(self.keys)
        for name in self.ARRAYS:
            if self._slots is None or name not in ("V", "one"):
                setattr(other, name, getattr(self, name).copy())
        other.block = tuple(array.copy() for array in self.block)
        if self._slots is not None:
            other._adopt(self._slots.copy())
        other._open = None if self._open is None else self._open.copy()
        other._next_end = self._next_end
        return other

    def _like(self, keys: int) -> LinearRun:
        """Create a run of the same kind, without arrays."""
        other = type(self)(self.program, self.window, (self.wcol, self.xcol), int(self.modulus))
        other.dtype, other.keys, other.shape = self.dtype, keys, self.shape
        other.apart, other.large = self.apart, self.large
        return other

    # Growing -------------------------------------------------------------------------------------

    def grow(self, keys: int) -> None:
        """Allocate space for more keys, and for new configurations of the program."""
        size, starts = self.program.size, self.program.start_size
        if keys <= self.keys and (starts, size) == self.shape:
            return
        # Doubling keeps the cost of growing proportional to the number of keys.
        room = max(keys, 2 * self.keys) if keys > self.keys else self.keys
        old, old_starts, old_size = self.keys, self.shape[0], self.shape[1]
        parts, mins, lanes = self.V.shape[2], self.M.shape[2], self.lanes
        before = (self.V, self.M, self.start, self.one, self.exponent)
        self._slots = None
        self.V = np.zeros((room, size, parts, lanes), self.dtype)
        self.M = np.full((room, size, mins, lanes), NO_VALUE, np.int64)
        self.start = np.zeros((room, lanes), np.int32)
        self.one = np.ones((room, lanes), self.dtype)
        self.exponent = np.zeros((room, lanes), np.int64)
        self.dirty = _longer(self.dirty, room, 0)
        first = LONG_AGO // max(self.window.pane, 1) if self.sliding else LONG_AGO
        self.opened = _longer(self.opened, room, first)
        self.keys, self.shape = room, (starts, size)
        if self._open is not None:
            self._open.grow(room)
        # Lanes of new configurations stay empty: no match has entered by them so far.
        kept = [*range(old_starts), *range(starts, starts + old_size)]
        kept = kept if self.sliding and not self.apart else list(range(lanes))
        if old:
            self.V[:old, :old_size, :, kept] = before[0]
            self.M[:old, :old_size, :, kept] = before[1]
            self.start[:old, kept] = before[2]
            self.one[:old, kept] = before[3]
            self.exponent[:old, kept] = before[4]
        if self.sliding and not self.apart:
            for lane in range(lanes):
                self.start[old:, lane] = lane if lane < starts else -1
                if lane >= starts:
                    self.V[old:, lane - starts, 0, lane] = 1
                    if lane - starts >= old_size:
                        self.V[:old, lane - starts, 0, lane] = 1
                        self.start[:old, lane] = -1
            count = self.window.within // self.window.pane
            wide = RESIDUE if self.dtype == RESIDUE else WIDE
            block = new_block(room, count, (size, parts, mins, lanes), wide)
            if old:
                copy_block(self.block, block, old, old_size, kept)
            self.block = block

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drop all keys except some, and renumber these by their position in the list."""
        kept = kept[kept < self.keys]
        self._slots = None
        for name in self.ARRAYS:
            setattr(self, name, np.take(getattr(self, name), kept, axis=0))
        self.block = tuple(array[kept] for array in self.block)
        self.keys, self._open = len(kept), None

    def _take(self, keys: NDArray[np.int64]) -> LinearRun:
        """Copy the counts of some keys, which are numbered by their places in the list."""
        part = self._like(len(keys))
        for name in self.ARRAYS:
            setattr(part, name, np.take(getattr(self, name), keys, axis=0))
        part.block = tuple(np.take(array, keys, axis=0) for array in self.block)
        return part

    def _put(self, keys: NDArray[np.int64], part: LinearRun) -> None:
        """Copy the counts of some keys back."""
        if part.dtype != self.dtype:
            self.widen()
        for name in self.ARRAYS:
            getattr(self, name)[keys] = getattr(part, name)
        for array, own in zip(self.block, part.block, strict=True):
            array[keys] = own

    # Running -------------------------------------------------------------------------------------

    def feed(self, events: Events) -> list[Rows]:
        """Process events in order; return the rows of the windows that closed meanwhile.

        The cost follows the events: of many keys only those that occur are touched.
        """
        if self.keys <= open_keys.FEW_KEYS:
            return self._feed(events)
        if self._open is None:
            self._open = OpenKeys(self.keys)
        self._open.add(events.key)
        if self._counts_in_slots(events):
            return self._feed(events)
        here, numbers = self._open.distinct(events.key)
        if open_keys.SHARE * len(here) > self.keys:
            return self._feed(events)
        part = self._take(here)
        found = part._feed(events._replace(key=numbers))
        self._put(here, part)
        return [rows._replace(key=here[rows.key]) for rows in found]

    def _feed(self, events: Events) -> list[Rows]:
        found: list[Rows] = []
        begin = 0
        if self.dtype == DOUBLE:
            events = events._replace(weights=events.weights.astype(np.float64, copy=False))
        self.fit(events.weights)
        while True:
            status, begin, rows = self._call(events, begin)
            if len(rows.key):
                # A view would keep the buffer of all rows of the batch alive.
                found.append(Rows(*(column.copy() for column in rows)))
            if status == linear.OK:
                return found
            if status == linear.NARROW:
                self.widen()

    def _call(self, events: Events, begin: int) -> tuple[int, int, Rows]:
        tables = self.program.tables()
        plain = self.program.plain() if self.dtype == DOUBLE and not events.grouped else None
        if plain is not None and (not self.sliding or self._counts_in_lanes):
            return self._call_plain(events, begin, plain)
        self._take_apart()
        if self.dtype == DOUBLE and not events.grouped and not self.sliding and self._counts_only:
            moving = self.program.moving()
            if moving is not None:
                return self._call_moving(events, begin, moving)
            replacing = self.program.closing()
            if replacing is not None:
                return self._call_moving(events, begin, replacing)
        count = len(events.ts) - begin
        room = count + 1 if self.window.kind is not WindowKind.NONE else 1
        out = self.rows_room() if self.sliding else self._room(room)
        weights = self.weights(events.weights)
        unit, zero = self.dtype.type(1), self.dtype.type(0)
        semantics = SEMANTICS_CODES[self.program.semantics]
        letters = self.program.letters_of_codes()[events.codes]
        codes = events.codes.astype(np.int32, copy=False)
        common = (events.ts, events.key, codes, letters, weights, events.values)
        if self.sliding:
            status, begin, rows = panes.aggregate_panes(
                tables, self.V, self.M, self.start, self.one, self.exponent, self.opened,
                self.dirty, self.block, *common, self.wcol, self.xcol, begin,
                self.window.pane, self.window.slide // self.window.pane, events.grouped,
                semantics, self.program.start_size, unit, zero, self.modulus, *out,
            )  # fmt: skip
        else:
            width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
            status, begin, rows = linear.aggregate_linear(
                tables, self.V, self.M, self.start, self.one, self.exponent, self.opened,
                *common, self.wcol, self.xcol, begin, width, events.grouped,
                semantics, unit, zero, self.modulus, *out,
            )  # fmt: skip
        return status, begin, Rows(*(array[:rows] for array in out))

    @property
    def _counts_only(self) -> bool:
        return bool(self.V.shape[2] == 1 and self.M.shape[2] == 0)

    @property
    def _counts_in_lanes(self) -> bool:
        return self._counts_only and self.lanes <= counting.LANES

    def _counts_in_slots(self, events: Events) -> bool:
        """Check whether the kernel of events changes the counts where they are."""
        plain = self.dtype == DOUBLE and not self.sliding and not events.grouped
        return plain and self._counts_only and self.program.plain() is not None

    def _in_slots(self) -> NDArray[np.float64]:
        """Return the counts in the layout of ``count_windows``, which stays their place."""
        if self._slots is None:
            size = self.shape[1]
            slots = np.zeros((self.keys, size + 2))
            slots[:, :size] = self.V[:, :, 0, 0]
            slots[:, size] = self.one[:, 0]
            self._adopt(slots)
            return slots
        return self._slots

    def _adopt(self, slots: NDArray[np.float64]) -> None:
        size = self.shape[1]
        self._slots = slots
        self.V, self.one = slots[:, :size, None, None], slots[:, size : size + 1]

    def _take_apart(self) -> None:
        """Copy the counts to the layout of the other kernels."""
        if self._slots is not None:
            self._slots = None
            self.V, self.one = self.V.copy(), self.one.copy()

    def _call_plain(self, events: Events, begin: int, plain: Plain) -> tuple[int, int, Rows]:
        """Call the fast kernels, which have their own layout."""
        tables, size = self.program.tables(), self.program.size
        if self.sliding:
            out = self.rows_room()
            lanes = np.zeros((self.keys, size + 2, counting.LANES))
            lanes[:, :size, : self.lanes] = self.V[:, :, 0, :]
            lanes[:, size, 0] = self.one[:, 0]
            status, begin, rows = counting.count_panes(
                lanes, self.V, self.M, self.start, self.one, self.exponent, self.opened,
                self.dirty, self.block, plain.target, plain.source, tables.counts, events.ts,
                events.key, events.codes, begin, self.window.pane,
                self.window.slide // self.window.pane, *out,
            )  # fmt: skip
            self.V[:, :, 0, :] = lanes[:, :size, : self.lanes]
            self.one[:, 0] = lanes[:, size, 0]
            return status, begin, Rows(*(array[:rows] for array in out))
        width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
        out = self._room(len(events.ts) - begin + 1 if width else 1)
        if not self._counts_only:
            return self._call_parts(events, begin, plain, width, out)
        slots, rows = self._in_slots(), 0
        if self.keys == 1 and not width:
            status, begin = counting.count_stream(
                slots, self.exponent[:, 0], plain.target, plain.source, events.codes, begin
            )
        else:
            status, begin, rows = counting.count_windows(
                slots, self.exponent[:, 0], self.opened, plain.target, plain.source,
                tables.counts, events.ts, events.key, events.codes, begin, width, *out[:3],
            )  # fmt: skip
        return status, begin, Rows(*(array[:rows] for array in out))

    def _call_moving(
        self, events: Events, begin: int, moving: Moving | Closing
    ) -> tuple[int, int, Rows]:
        """Call the fast kernel for matches that move: §3.2, §3.3, negation and closing links."""
        size = self.program.size
        width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
        out = self._room(len(events.ts) - begin + 1 if width else 1)
        slots = np.zeros((self.keys, size + 3))
        slots[:, :size] = self.V[:, :, 0, 0]
        slots[:, size] = self.one[:, 0]
        kernel = counting.count_moving if isinstance(moving, Moving) else closing.count_closing
        status, begin, rows = kernel(
            slots, self.exponent[:, 0], self.opened, *moving, self.program.tables().counts,
            events.ts, events.key, events.codes, begin, width, *out[:3],
        )  # fmt: skip
        self.V[:, :, 0, 0] = slots[:, :size]
        self.one[:, 0] = slots[:, size]
        return status, begin, Rows(*(array[:rows] for array in out))

    def _call_parts(
        self, events: Events, begin: int, plain: Plain, width: int, out: tuple[NDArray[Any], ...]
    ) -> tuple[int, int, Rows]:
        """Call the fast kernels for several aggregates; few of them fit into registers."""
        tables, size = self.program.tables(), self.program.size
        parts, mins = self.V.shape[2], self.M.shape[2]
        few = parts <= counting.PARTS and mins <= counting.MINS
        shape = (counting.PARTS, counting.MINS) if few else (parts, mins)
        sums = np.zeros((self.keys, size + 2, shape[0]))
        least = np.full((self.keys, size + 2, shape[1]), NO_VALUE, np.int64)
        sums[:, :size, :parts] = self.V[:, :, :, 0]
        sums[:, size, 0] = self.one[:, 0]
        least[:, :size, :mins] = self.M[:, :, :, 0]
        weights, values, wcol, xcol = events.weights, events.values, self.wcol, self.xcol
        kernel, results = counting.aggregate_windows, out
        if few:
            # A variable that adds nothing reads the last row, of zeros or of no values.
            last = len(weights) - 1, len(values) - 1
            wcol = np.full((len(wcol), shape[0]), last[0])
            wcol[:, :parts] = np.where(self.wcol >= 0, self.wcol, last[0])
            xcol = np.full((len(xcol), shape[1]), last[1])
            xcol[:, :mins] = np.where(self.xcol >= 0, self.xcol, last[1])
            rows_room = len(out[0])
            numbers = np.zeros((rows_room, shape[0]), WIDE)
            results = (*out[:2], numbers, np.zeros((rows_room, shape[1]), np.int64))
            kernel = counting.aggregate_few
        status, begin, rows = kernel(
            sums, least, self.exponent[:, 0], self.opened, plain.target, plain.source,
            tables.counts, tables.variable, events.ts, events.key, events.codes, weights,
            values, wcol, xcol, begin, width, *results,
        )  # fmt: skip
        self.V[:, :, :, 0] = sums[:, :size, :parts]
        self.M[:, :, :, 0] = least[:, :size, :mins]
        self.one[:, 0] = sums[:, size, 0]
        key, window, numbers, found = (array[:rows] for array in results)
        return status, begin, Rows(key, window, numbers[:, :parts], found[:, :mins])

    def flush(self, until: int) -> list[Rows]:
        """Return the rows of windows of all keys that end by a time."""
        if not self.keys:
            return []
        if self.window.kind is WindowKind.TUMBLING:
            if until < self._next_end:
                return []
            self._next_end = (until // self.window.within + 1) * self.window.within
        if self._open is None or self.window.kind is WindowKind.NONE:
            return self._flush(until)
        keys = self._open.all()
        if self._slots is not None:
            found, still = self._flush_slots(self._slots, keys.copy(), until)
            self._open.replace(still)
            return found
        if not self.sliding:
            # Windows that do not end by then do not change.
            keys = keys[self.opened[keys] + self.window.within <= until]
        part = self._take(keys)
        found = part._flush(until) if len(keys) else []
        self._put(keys, part)
        every = self._open.all()
        self._open.replace(every[self.has_open(until, every)])
        return [rows._replace(key=keys[rows.key]) for rows in found]

    def _flush_slots(
        self, slots: NDArray[np.float64], keys: NDArray[np.int64], until: int
    ) -> tuple[list[Rows], NDArray[np.int64]]:
        """Close the windows of keys where their counts are; return the rows and the other keys."""
        out = self._room(len(keys))
        width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
        rows, still = counting.flush_counts(
            slots, self.exponent[:, 0], self.opened, self.program.tables().counts, keys, until,
            width, *out[:3],
        )  # fmt: skip
        return [Rows(*(array[:rows].copy() for array in out))], keys[:still].copy()

    def has_open(self, until: int, keys: Any = slice(None)) -> NDArray[np.bool_]:
        """Mark the keys that have an open window with events, after ``flush`` up to a time."""
        if not self.sliding:
            return np.asarray(self.opened[keys] + self.window.within > until)
        begun, tail = self.block[7], self.block[11]
        return np.asarray(self.dirty[keys] | begun[keys] | tail[keys].any(axis=1))

    def _flush(self, until: int) -> list[Rows]:
        if self._slots is not None:
            return self._flush_slots(self._slots, np.arange(self.keys), until)[0]
        tables = self.program.tables()
        unit, zero = self.dtype.type(1), self.dtype.type(0)
        if not self.sliding:
            width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
            out = self._room(self.keys)
            rows = linear.flush_linear(
                tables, self.V, self.M, self.start, self.one, self.exponent, self.opened, until,
                width, unit, zero, self.modulus, *out,
            )  # fmt: skip
            return [Rows(*(array[:rows] for array in out))]
        found, first = [], 0
        upto = until // self.window.pane
        while first < self.keys:
            out = self.rows_room()
            first, rows = panes.flush_panes(
                tables.counts, self.V, self.M, self.start, self.one, self.exponent, self.opened,
                self.dirty, self.block, first, upto, self.window.slide // self.window.pane,
                self.program.start_size, unit, zero, self.modulus, *out,
            )  # fmt: skip
            found.append(Rows(*(array[:rows] for array in out)))
        return found

    def rows_room(self) -> tuple[NDArray[Any], ...]:
        """Allocate buffers for the rows of sliding windows."""
        return self._room(max(ROWS_ROOM, 4 * self.window.within // self.window.pane + 8))

    def _room(self, rows: int) -> tuple[NDArray[Any], ...]:
        wide = RESIDUE if self.dtype == RESIDUE else WIDE
        return (
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
            np.zeros((rows, self.V.shape[2]), wide),
            np.zeros((rows, self.M.shape[2]), np.int64),
        )

    def weights(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Convert weights to the number format of the run."""
        return numbers_of(weights, self.dtype, int(self.modulus))

    def fit(self, weights: NDArray[Any]) -> None:
        """Switch to wide numbers if doubles cannot hold the weights."""
        if self.dtype == DOUBLE and not fit_doubles(weights):
            self.widen()

    def widen(self) -> None:
        """Switch to wide numbers."""
        assert self.dtype == DOUBLE, "wide numbers reach everywhere"
        exponents = self.exponent[:, None, None, :].astype(np.float64)
        self._slots = None
        self.V = wide_of(self.V, exponents)
        self.one = np.ones((self.keys, self.lanes), WIDE)
        self.exponent[:] = 0
        self.dtype = WIDE


def _longer(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
