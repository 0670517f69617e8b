"""The counts that a group of queries keeps between batches, and the calls of its kernels.

Doubles share an exponent per key and heap; when a double can no longer span the smallest and the
largest count, the run switches to wide numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels import linear, shared, shared_panes
from cepheid.kinds.trend.program.linear_state import (
    DOUBLE,
    NO_VALUE,
    RESIDUE,
    SEMANTICS_CODES,
    WIDE,
    Rows,
)
from cepheid.kinds.trend.program.pane_blocks import BLOCK_LIMITS
from cepheid.kinds.trend.program.wide import fit_doubles, numbers_of
from cepheid.kinds.workload.shared_reading import SharedEvents
from cepheid.kinds.workload.shared_tables import Counts, SharedProgram
from cepheid.kinds.workload.sharing import Method
from cepheid.language import tree
from cepheid.memory_limits import current
from cepheid.plans.plan import WindowKind

ROOM_BYTES = 1 << 24
"""The memory that the rows of one call may take."""

NO_MODULUS = np.uint64(0)


class SharedRows(NamedTuple):
    """Results of windows: the member of the group, and the fields of ``Rows``.

    Those of trailing windows have a kind: what changed (``ENDED``, ``EXPIRED``).
    """

    query: NDArray[np.int64]
    key: NDArray[np.int64]
    window: NDArray[np.int64]
    numbers: NDArray[Any]
    values: NDArray[np.int64]
    kind: NDArray[np.int8] | None = None


class SharedRun:
    """The run of one group, over all keys."""

    ARRAYS = ("V", "M", "stamp", "exponent", "limit")

    def __init__(self, program: SharedProgram) -> None:
        self.program = program
        group = program.group
        self.window = group.plan.window
        self.sliding = group.method is Method.MATRIX
        self.semantics = SEMANTICS_CODES[group.plan.semantics]
        self.modulus = np.uint64(program.modulus)
        self.dtype: np.dtype[Any] = RESIDUE if program.modulus else DOUBLE
        self.keys = 0
        parts, mins, size = len(group.parts), len(group.extremes), program.size
        contiguous = group.plan.semantics is tree.Semantics.CONTIGUOUS
        heaps = len(program.tables().heap_unit)
        self.V: NDArray[Any] = np.zeros((0, size, parts), self.dtype)
        self.M = np.zeros((0, size, mins), np.int64)
        self.stamp = np.zeros((0, size + 1 if contiguous else 1), np.int64)
        self.exponent = np.zeros((0, heaps), np.int64)
        self.limit = np.zeros(0, np.int64)
        self.block: tuple[NDArray[Any], ...] = ()

    def copy(self) -> SharedRun:
        """Copy the run, so that both can continue independently."""
        other = SharedRun(self.program)
        other.dtype, other.keys = self.dtype, self.keys
        for name in self.ARRAYS:
            setattr(other, name, getattr(self, name).copy())
        other.block = tuple(array.copy() for array in self.block)
        return other

    def grow(self, keys: int) -> None:
        """Allocate space for more keys."""
        if keys <= self.keys:
            return
        # Doubling keeps the cost of growing proportional to the number of keys.
        old, room = self.keys, max(keys, 2 * self.keys)
        # No event is after the end of an unbounded window, or before the initial end of the others.
        bounded = self.window.kind is not WindowKind.NONE
        fills = {"M": NO_VALUE, "limit": self._long_ago if bounded else NO_VALUE}
        for name in self.ARRAYS:
            setattr(self, name, _longer(getattr(self, name), room, fills.get(name, 0)))
        self.V[old:, self.program.tables().initial, 0] = 1
        self.keys = room
        if self.sliding:
            self.grow_panes(room)

    @property
    def _long_ago(self) -> int:
        pane = max(self.window.pane, 1)
        return LONG_AGO // pane * pane if self.sliding else LONG_AGO

    def grow_panes(self, room: int) -> None:
        """Allocate the panes of some keys."""
        count = self.window.within // self.window.pane
        size, parts, mins = self.program.size, self.V.shape[2], self.M.shape[2]
        # Panes and their products; a wide number takes 16 bytes.
        needed = room * (2 * count + 1) * size * (16 * parts + 8 * mins)
        if needed > BLOCK_LIMITS * current().state:
            message = (
                f"{count:,} panes per window and {room:,} keys need about {needed / 2**30:.0f} GiB"
            )
            helps = ("use a longer SLIDE, fewer keys, or a shorter WITHIN",)
            raise DataError([Diagnostic("E511", message, helps=helps)])
        shapes: list[tuple[tuple[int, ...], Any]] = [
            ((room, count, size, parts), WIDE),
            ((room, count, size, mins), np.int64),
            ((room, count), np.bool_),
            ((room, size, parts), WIDE),
            ((room, size, mins), np.int64),
            ((room,), np.bool_),
            ((room, count, size, parts), WIDE),
            ((room, count, size, mins), np.int64),
            ((room, count), np.bool_),
            ((room,), np.bool_),
        ]
        before, self.block = self.block, tuple(np.zeros(shape, dtype) for shape, dtype in shapes)
        # No pane is open at the start.
        self.block[-1][:] = True
        for new, array in zip(self.block, before, strict=False):
            new[: len(array)] = array

    def busy(self, until: int, count: int) -> NDArray[np.bool_]:
        """Mark the keys that have an open window with events, after ``flush(until)``."""
        busy = np.zeros(count, np.bool_)
        known = min(count, self.keys)
        if not known:
            return busy
        if self.sliding:
            begun, tail, sealed = self.block[5], self.block[8], self.block[9]
            busy[:known] = (~sealed | begun | tail.any(axis=1))[:known]
        else:
            busy[:known] = (self.limit > until)[:known]
        return busy

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drop all keys except some, and renumber these by their position in the list."""
        kept = kept[kept < self.keys]
        for name in self.ARRAYS:
            setattr(self, name, getattr(self, name)[kept])
        self.block = tuple(array[kept] for array in self.block)
        self.keys = len(kept)

    # Running -------------------------------------------------------------------------------------

    def feed(self, events: SharedEvents, *, grouped: bool) -> list[SharedRows]:
        """Process events in order; return the rows of the windows that closed meanwhile."""
        codes = self.program.code(events.kinds)
        if self.dtype == DOUBLE and not fit_doubles(events.weights):
            self.widen()
        found: list[SharedRows] = []
        begin = 0
        while True:
            status, begin, rows = self._call(events, codes, begin, grouped=grouped)
            found += _some(rows)
            if status == linear.OK:
                return found
            if status == linear.NARROW:
                self.widen()

    def _call(
        self, events: SharedEvents, codes: NDArray[Any], begin: int, *, grouped: bool
    ) -> tuple[int, int, SharedRows]:
        tables, out = self.program.tables(), self._room()
        width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
        counting = self.V.shape[2] == 1 and self.M.shape[2] == 0 and self.semantics == linear.ANY
        counts = self.program.counts() if counting and not grouped and self._plain else None
        if counts is not None:
            return self._count(events, codes, begin, width, counts, out)
        unit, zero = self.dtype.type(1), self.dtype.type(0)
        size, parts, mins = self.program.size, self.V.shape[2], self.M.shape[2]
        room = (
            np.zeros((size, parts), self.dtype),
            np.full((size, mins), NO_VALUE, np.int64),
            np.zeros(size, np.bool_),
            np.zeros(size, np.int32),
        )
        # One order in memory for all calls: every other one would be a kernel of its own.
        weights = np.ascontiguousarray(numbers_of(events.weights, self.dtype, self.program.modulus))
        common = (events.ts, events.key, codes, weights, events.values, begin)
        last = (grouped, self.semantics, room, unit, zero, self.modulus, out[:3], *out[3:])
        if self.sliding:
            status, begin, rows = shared_panes.run_shared_panes(
                tables, self.V, self.M, self.stamp, self.exponent, self.limit,
                self.block, *common, self.window.pane, self.window.slide // self.window.pane,
                *last,
            )  # fmt: skip
        else:
            status, begin, rows = shared.run_shared_windows(
                tables, self.V, self.M, self.stamp, self.exponent, self.limit, *common, width,
                *last,
            )  # fmt: skip
        return status, begin, _cut(out, rows)

    @property
    def _plain(self) -> bool:
        return self.dtype == DOUBLE and not self.sliding

    def _count(
        self, events: SharedEvents, codes: NDArray[Any], begin: int, width: int,
        counts: Counts, out: tuple[NDArray[Any], ...],
    ) -> tuple[int, int, SharedRows]:  # fmt: skip
        """Call the fast kernel."""
        status, begin, rows = shared.count_shared_windows(
            self.program.tables(), self.V, self.M, self.stamp, self.exponent, self.limit,
            events.ts, events.key, codes, begin, width, counts, out[:3], *out[3:],
        )  # fmt: skip
        return status, begin, _cut(out, rows)

    def flush(self, until: int) -> list[SharedRows]:
        """Close the windows of all keys that end by a time."""
        tables = self.program.tables()
        unit, zero = self.dtype.type(1), self.dtype.type(0)
        found: list[SharedRows] = []
        first = 0
        while first < self.keys:
            out = self._room()
            last = (unit, zero, self.modulus, out[:3], *out[3:])
            if self.sliding:
                first, rows = shared_panes.flush_shared_panes(
                    tables, self.V, self.M, self.stamp, self.exponent, self.limit,
                    self.block, first, until // self.window.pane, self.window.pane,
                    self.window.slide // self.window.pane, *last,
                )  # fmt: skip
            else:
                width = self.window.within if self.window.kind is WindowKind.TUMBLING else 0
                first, rows = shared.flush_shared_windows(
                    tables, self.V, self.M, self.stamp, self.exponent, self.limit, first, until,
                    width, *last,
                )  # fmt: skip
            found += _some(_cut(out, rows))
        return found

    def _room(self) -> tuple[NDArray[Any], ...]:
        parts, mins = self.V.shape[2], self.M.shape[2]
        queries = len(self.program.group.members)
        rows = max(2 * queries + 2, ROOM_BYTES // (24 + 16 * parts + 8 * mins))
        return (
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty((rows, parts), RESIDUE if self.dtype == RESIDUE else WIDE),
            np.empty((rows, mins), np.int64),
        )

    def widen(self) -> None:
        """Switch to wide numbers."""
        assert self.dtype == DOUBLE, "wide numbers reach everywhere"
        wide = np.zeros(self.V.shape, WIDE)
        tables = self.program.tables()
        shared.widen_heaps(self.V, self.exponent, tables.heap, wide)
        # The unit of a heap may have been rounded away beside huge counts.
        wide[:, tables.unit, 0] = 1
        self.V, self.dtype = wide, WIDE
        self.exponent[:] = 0


def _cut(out: tuple[NDArray[Any], ...], rows: int) -> SharedRows:
    return SharedRows(*(array[:rows] for array in out))


def _some(rows: SharedRows) -> list[SharedRows]:
    # A view would keep the buffer of all rows alive.
    query, key, window, numbers, values, _ = rows
    found = SharedRows(query.copy(), key.copy(), window.copy(), numbers.copy(), values.copy())
    return [found] if len(key) else []


def _longer(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    longer = np.full((size, *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer


def rows_by_member(program: SharedProgram, found: list[SharedRows]) -> list[list[Rows]]:
    """Split rows by member of a group, with each member's order of parts and extremes."""
    rows: list[list[Rows]] = [[] for _ in program.group.members]
    for member, part in split_by_member(program, found):
        rows[member].append(Rows(part.key, part.window, part.numbers, part.values))
    return rows


def split_by_member(
    program: SharedProgram, found: list[SharedRows]
) -> Iterator[tuple[int, SharedRows]]:
    """Yield members and their rows, with each member's order of parts and extremes."""
    group = program.group
    for part in found:
        order = np.argsort(part.query, kind="stable")
        query = part.query[order]
        members, starts = np.unique(query, return_index=True)
        ends = np.append(starts[1:], len(query))
        for member, first, last in zip(members.tolist(), starts, ends, strict=True):
            mine = order[first:last]
            parts, extremes = (np.argsort(own) for own in group.orders[member])
            yield (
                member,
                SharedRows(
                    query[first:last],
                    part.key[mine],
                    part.window[mine],
                    part.numbers[mine][:, parts],
                    part.values[mine][:, extremes],
                    None if part.kind is None else part.kind[mine],
                ),
            )
