"""Aggregate windows that do not overlap as their events come: columns of a table in, rows out.

Events in the order of time come window by window. So the latest row of its key tells whether an
event opens a row, and one loop gives every event its row, into which its values are folded. What
this cannot take, such as a table that is not in order or has NULL, goes the way of stretches
(``windows.py``), which the rows so far can join.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.arrays.pool import empty, taken
from cepheid.kernels.columns import scan_times
from cepheid.kernels.window_folds import fold_into, order_rows, place_in_windows
from cepheid.kinds.selection.finishing import finish_rows
from cepheid.kinds.selection.groups import Codes
from cepheid.kinds.selection.moments import OPERATIONS, Moments, Numbers, SumBounds, neutral_of
from cepheid.kinds.selection.windows import (
    Stretches,
    arguments_of,
    check_count,
    measure_values,
    window_rows,
)
from cepheid.plans.selection import Extent, Measure, Selection

ROWS_MIN = 1 << 12
"""Shorter first tables go the way of stretches: kernels for them would cost more than they gain."""

ROWS_MAX = (1 << 31) - 2
"""The places of rows have 32 bits."""

ROW_BYTES = 48
"""The minimum size of a result row: its edges, its number of events, and its key."""

_ALL_KNOWN = np.zeros(0, np.int64)
"""Stands for the ones that count values, so that nobody has to add them up."""

_NUMBERS = (np.dtype(np.int64), np.dtype(np.float64))

Measures = dict[Measure, Moments]


def folds_plainly(select: Selection) -> bool:
    """Check whether the windows of a query do not overlap, and its aggregates need no values."""
    window = select.window
    apart = window.extent is Extent.TIME and window.within == window.slide
    plain = all(one.holistic is None for one in arguments_of(select))
    return plain and (apart or window.extent is Extent.NONE)


class PlainFolds:
    """The rows of windows so far; the last window is open."""

    def __init__(self, select: Selection, time: str) -> None:
        self._select, self._time = select, time
        # Without windows, all events are in one.
        self._slide = select.window.slide or 1
        self._keys = KeyTable(key.attribute for key in select.keys)
        self._types: list[pa.DataType] = []
        # The open window, its first row, and the numbers of windows and rows.
        self._state = np.zeros(4, np.int64)
        self._latest = np.zeros(0, np.int64)
        self._windows = self._counts = np.zeros(0, np.int64)
        # Of each row: the place of its window, and its key.
        self._places = self._owners = np.zeros(0, np.int32)
        self._moments: Measures = {}

    def __len__(self) -> int:
        return int(self._state[3])

    def add(self, table: pa.Table, sums: SumBounds) -> bool:
        """Add events; return False, and change no row, if they are not plain."""
        if not len(table) or (len(table) < ROWS_MIN and not len(self)):
            return bool(len(self))
        if len(self) + len(table) > ROWS_MAX:
            return False
        columns = Columns(table)
        keys = [columns.arrow(name) for name in self._keys.names]
        types = [_type_of(key) for key in keys]
        if len(self) and types != self._types:
            return False
        if any(
            key.null_count or not _is_numbered(kind) for key, kind in zip(keys, types, strict=True)
        ):
            return False
        times = self._read_times(columns)
        measured = None if times is None else self._measure(columns, sums)
        if times is None or measured is None:
            return False
        self._types = types
        before, numbers = len(self), self._keys.number(columns)
        self._make_room(len(table), measured)
        rows = empty(len(table))
        found = self._windows, self._places, self._owners, self._counts
        place_in_windows(times, numbers, self._slide, self._state, self._latest, *found, rows)
        self._fold(measured, rows, before)
        return True

    def _read_times(self, columns: Columns) -> NDArray[np.int64] | None:
        """Return the times, None if they go back; the first ones open the first window."""
        if self._select.window.extent is Extent.NONE:
            return np.zeros(len(columns.batch), np.int64)
        times = read_times(columns, self._time)
        first = int(times[0]) // self._slide
        if scan_times(times)[0] >= 0 or (len(self) and first < self._state[0]):
            return None
        return times

    def _measure(self, columns: Columns, sums: SumBounds) -> Measures | None:
        """Evaluate what is aggregated; None if a value is NULL, or a sum may not fit 64 bits."""
        found: Measures = {}
        for one, functions in arguments_of(self._select).items():
            measured = measure_values(one, functions, columns, _ALL_KNOWN)
            assert isinstance(measured, Moments), "bags and sketches are not plain"
            known = self._moments.get(one, measured)
            if measured.known is not _ALL_KNOWN or _shape(measured) != _shape(known):
                return None
            total = measured.parts[0]
            if total is not None and total.dtype.kind == "i":
                most = max(abs(int(total.min())), abs(int(total.max())))
                if not sums.fits(one.argument, float(most) * len(total)):
                    return None
            if any(part.dtype not in _NUMBERS for part in measured.parts if part is not None):
                return None
            found[one] = measured
        return found

    def _make_room(self, more: int, measured: Measures) -> None:
        """Make room for the keys so far, and for as many rows as there are events."""
        if len(self._keys) > len(self._latest):
            fresh = np.full(2 * len(self._keys) - len(self._latest), -1)
            self._latest = np.concatenate([self._latest, fresh])
        room = len(self) + more + 1
        if room > len(self._counts):
            longer = partial(_longer, used=len(self), room=2 * room)
            self._windows, self._counts = longer(self._windows), longer(self._counts)
            self._places, self._owners = longer(self._places), longer(self._owners)
            for one, found in measured.items():
                known = self._moments.get(one, found)
                self._moments[one] = known.with_parts(lambda part, _: longer(part))

    def _fold(self, measured: Measures, rows: Codes, before: int) -> None:
        """Fold the values of events into their rows."""
        for one, found in measured.items():
            both = zip(found.parts, self._moments[one].parts, OPERATIONS, strict=True)
            for values, out, operation in both:
                if values is not None and out is not None:
                    out[before : len(self)] = neutral_of(operation, values)
                    fold_into(rows, values, operation, out)

    def stretches(self) -> Stretches:
        """Return the rows as stretches, for those of other events to join."""
        every = np.arange(len(self))
        windows, counts = self._windows[self._places[every]], self._counts[every]
        keys = [values.take(self._owners[every]) for values in self._values()]
        moments = [self._taken(one, every, counts) for one in self._moments]
        return Stretches(keys, windows, windows, counts, [*moments])

    def table(self, schema: pa.Schema) -> pa.Table:
        """Build the rows of all windows, by window and key."""
        select, values = self._select, self._values()
        check_count(np.full(1, len(self)), ROW_BYTES + 8 * len(self._moments))
        order, sizes = self._order(values)
        counts = taken(self._counts, order)
        windows = np.repeat(self._windows[: len(sizes)], sizes)
        keys = [one.take(taken(self._owners, order)) for one in values]
        named = {one: self._taken(one, order, counts) for one in self._moments}
        table = window_rows(select, self._time, schema, keys, windows, counts, named)
        return finish_rows(select, table)

    def _taken(self, one: Measure, rows: Codes, counts: Codes) -> Moments:
        found = self._moments[one].with_parts(lambda part, _: taken(part, rows))
        return found._replace(known=counts)

    def _values(self) -> list[pa.Array[Any]]:
        """Return the values of all keys, in the types of their columns."""
        arrays = self._keys.arrays()
        return [one.cast(kind) for one, kind in zip(arrays, self._types, strict=True)]

    def _order(self, values: list[pa.Array[Any]]) -> tuple[Codes, Codes]:
        """Order the rows by window and key, and count those of each window."""
        ranks = np.zeros(1, np.int64)
        if values:
            names = [str(number) for number in range(len(values))]
            sort_keys: Any = [(name, "ascending") for name in names]
            by_value = np.asarray(pc.sort_indices(pa.table(values, names), sort_keys=sort_keys))
            ranks = np.empty(len(by_value), np.int64)
            ranks[by_value] = np.arange(len(by_value))
        order, by_key = empty(len(self)), empty(len(self), np.int32)
        places, owners = self._places[: len(self)], self._owners[: len(self)]
        ends = np.zeros(int(self._state[2]), np.int64)
        order_rows(places, owners, ranks, np.zeros_like(ranks), ends, by_key, order)
        return order, np.diff(ends, prepend=0)


def _longer(values: Numbers, used: int, room: int) -> Numbers:
    """Copy the values that are used to an array with room for more."""
    longer = empty(room, values.dtype)
    longer[:used] = values[:used]
    return longer


def _shape(moments: Moments) -> tuple[Any, ...]:
    return moments.kind, *(None if part is None else part.dtype for part in moments.parts)


def _type_of(column: pa.ChunkedArray[Any]) -> pa.DataType:
    """Return the type of the values of a column, without a dictionary."""
    kind: Any = column.type
    plain: pa.DataType = kind.value_type if pa.types.is_dictionary(kind) else kind
    return plain


def _is_numbered(kind: pa.DataType) -> bool:
    """Check whether numbered keys are shown as they came: equal doubles may differ in a sign."""
    types = pa.types
    tests = types.is_integer, types.is_string, types.is_large_string, types.is_temporal
    return any(test(kind) for test in tests)
