"""Aggregate the columns of a table on the device, as they lie in Arrow (§10.4, §10.5).

Each column is copied once. Groups and windows are numbered there, and only stretches come back.
This is for columns of whole numbers, doubles and texts without NULL; others are for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator import grouping, selecting
from cepheid.accelerator.conditions import Form, NamedForming
from cepheid.accelerator.kernels.slots import SLIDING, TUMBLING, WHOLE
from cepheid.accelerator.reading import Key, Reading
from cepheid.accelerator.uploading import Uploaded, upload_columns
from cepheid.arrays.columns import values_of_keys
from cepheid.arrays.noticing import current
from cepheid.events.schema import ValueKind
from cepheid.events.temporal import TIME_MAX
from cepheid.kinds.selection.groups import DENSE_MAX, Codes
from cepheid.kinds.selection.moments import NO_PARTS, Moments, SumBounds
from cepheid.kinds.selection.windows import Measures, Stretches, arguments_of
from cepheid.language import tree
from cepheid.plans.selection import Extent, Selection, SelectWindow, plain_attribute

SLOTS_MAX = 1 << 26
"""Slots that are on the device at once."""

FEW_SLOTS = 1 << 16
"""So many slots cost nothing, however few events there are."""


TAKEN_ROWS = 1 << 16
"""Rows that one thread takes at least."""


class Columns(NamedTuple):
    """Everything that an aggregation reads: the condition, keys, and the columns of values."""

    reading: Reading
    form: Form
    constants: tuple[NDArray[Any], NDArray[Any]]
    keys: list[Key]
    values: list[tuple[str, int] | None]
    """The kind and the row of every argument, None if it is only counted."""
    time: int


def read_columns(select: Selection, time: str, table: pa.Table) -> Columns | None:
    """Look at the columns without copying them; None if the host must read one."""
    reading = Reading(table)
    forming = NamedForming(reading.place)
    form = forming.form(select.condition)
    keys = [reading.key(key.attribute) for key in select.keys]
    known = [key for key in keys if key is not None]
    if form is None or len(known) < len(keys):
        return None
    values: list[tuple[str, int] | None] = []
    for measure, functions in arguments_of(select).items():
        name = plain_attribute(measure.argument)
        # The host keeps the values of COUNT(DISTINCT) and PERCENTILE.
        if measure.holistic is not None or name is None or name not in table.column_names:
            return None
        counted = functions <= {"COUNT"} and not table.column(name).null_count
        found = None if counted else reading.place(name)
        if found is None and not counted:
            return None
        values.append(found)
    row = 0
    if select.window.extent is Extent.TIME:
        ticks = reading.place(time, times=True)
        if ticks is None or ticks[0] != "whole":
            return None
        row = ticks[1]
    return Columns(reading, form, forming.constants, known, values, row)


def keep_there(table: pa.Table, conditions: Sequence[tree.Expression]) -> pa.Table | None:
    """Keep the events for which all conditions are true; None if the host must evaluate one.

    The device gathers the columns that it has; threads of the host take the others by their rows.
    """
    reading = Reading(table)
    forming = NamedForming(reading.place)
    form = forming.form(conditions)
    if form is None or not reading.columns:
        return None
    there = upload_columns(reading.columns, len(table))
    rows = selecting.rows_on_device(there.for_conditions(forming.constants), form, len(table))
    if rows is None:
        return table.slice(0, 0)
    if len(rows) == len(table):
        return table
    found: dict[str, Any] = {}
    for name, row in reading.rows.items():
        values = selecting.gather_rows(there.whole[row], rows)
        found[name] = pa.array(values).view(table.schema.field(name).type)
    others = [name for name in table.column_names if name not in found]
    if others:
        found |= zip(others, _taken(table, others, rows.copy_to_host()), strict=True)
    return pa.table([found[name] for name in table.column_names], schema=table.schema)


def _taken(table: pa.Table, names: list[str], rows: NDArray[np.int64]) -> list[Any]:
    """Take columns by the numbers of rows; threads take stretches of them side by side."""
    size = max(-(-len(rows) // pa.cpu_count()), TAKEN_ROWS)
    parts: list[Any] = [pa.array(rows[first : first + size]) for first in range(0, len(rows), size)]
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        work = [[pool.submit(table.column(name).take, part) for part in parts] for name in names]
        return [
            pa.chunked_array([chunk for one in taken for chunk in one.result().chunks])
            for taken in work
        ]


def measure_there(
    select: Selection, time: str, table: pa.Table, sums: SumBounds
) -> Stretches | None:
    """Convert the events of a table to stretches on the device; None if the host must do it."""
    if not len(table) or select.window.extent not in (Extent.NONE, Extent.TIME):
        return None
    read = read_columns(select, time, table)
    if read is None:
        return None
    rooms = [cuda.device_array(len(table), key.chunks[0].dtype) for key in read.keys]
    beside = [(key.chunks, room) for key, room in zip(read.keys, rooms, strict=True)]
    there = upload_columns(read.reading.columns, len(table), beside)
    arguments = arguments_of(select)
    for measure, value in zip(arguments, read.values, strict=True):
        if value is not None and value[0] == "whole":
            bound = max(map(abs, grouping.extent_of(there.whole[value[1]])))
            if not sums.fits(measure.argument, float(bound) * len(table)):
                return None
    slotting = _slotting(select, there.whole[read.time], len(table), table.schema.field(time).type)
    digits = [_digit(key, room) for key, room in zip(read.keys, rooms, strict=True)]
    size = 1 if slotting is None else slotting.span
    for digit in digits:
        size *= digit.base
    if slotting is None or size > min(max(DENSE_MAX * len(table), FEW_SLOTS), SLOTS_MAX):
        return None
    slots = grouping.number_slots(
        there, read.form, read.constants, there.whole[read.time], digits, slotting
    )
    return _folded(select, arguments, read, there, slots, size, slotting, digits)


def _slotting(
    select: Selection, times: Any, length: int, kind: pa.DataType
) -> grouping.Slotting | None:
    """Find the first and the last window of all events; None if the host must refuse a time."""
    window = select.window
    if window.extent is Extent.NONE:
        return grouping.Slotting(WHOLE, 1, 1, 0, 1)
    least, largest = grouping.extent_of(times)
    if least < -TIME_MAX or largest > TIME_MAX:
        return None
    noticed = current()
    if noticed is not None and pa.types.is_int64(kind):
        noticed.add_times(least, largest, length)
    windows = TUMBLING if window.within == window.slide else SLIDING
    places = [one // window.slide for one in (least, largest)]
    if windows == SLIDING:
        firsts = [(one - window.within) // window.slide + 1 for one in (least, largest)]
        places = [first + last for first, last in zip(firsts, places, strict=True)]
    return grouping.Slotting(
        windows, window.within, window.slide, places[0], places[1] - places[0] + 1
    )


def _digit(key: Key, column: Any) -> grouping.Digit:
    """Find out from where keys on the device are numbered, and how many numbers there are."""
    if key.texts is not None:
        return grouping.Digit(column, 0, len(key.texts))
    least, largest = grouping.extent_of(column)
    return grouping.Digit(column, least, largest - least + 1)


def _folded(
    select: Selection, arguments: Measures, read: Columns, there: Uploaded, slots: Any, size: int,
    slotting: grouping.Slotting, digits: list[grouping.Digit],
) -> Stretches:  # fmt: skip
    """Fold all arguments, and build the stretches of the slots that have events."""
    places = selecting.FoldPlaces([], [], [], [], [], [])
    made = [
        _placed(places, value, functions)
        for value, functions in zip(read.values, arguments.values(), strict=True)
    ]
    found = selecting.fold_columns(there, places, slots, size)
    used = np.flatnonzero(found.counts)
    first, last = windows_of(used % slotting.span + slotting.lowest, select.window)
    codes, keys = used // slotting.span, []
    for key, digit in zip(reversed(read.keys), reversed(digits), strict=True):
        keys.append(_values(key, codes % digit.base + digit.lowest))
        codes //= digit.base
    counts = found.counts[used]
    return Stretches(keys[::-1], first, last, counts, [make(found, used, counts) for make in made])


Made = Callable[[selecting.Folded, Codes, Codes], Moments]


def _placed(
    places: selecting.FoldPlaces, value: tuple[str, int] | None, functions: frozenset[str]
) -> Made:
    """Add the folds of an argument; the result builds its moments from them."""
    if value is None:
        return lambda _found, _used, counts: Moments(counts, NO_PARTS, ValueKind.INTEGER)
    name, row = value
    double = name == "double"
    total = least = largest = -1
    if functions & {"SUM", "AVG"}:
        target = places.doubles if double else places.whole
        target.append(row)
        total = len(target) - 1
    if "MIN" in functions:
        places.low.append(row)
        places.doubled_low.append(double)
        least = len(places.low) - 1
    if "MAX" in functions:
        places.high.append(row)
        places.doubled_high.append(double)
        largest = len(places.high) - 1
    kind = ValueKind.DOUBLE if double else ValueKind.INTEGER

    def make(found: selecting.Folded, used: Codes, counts: Codes) -> Moments:
        sums = found.doubles if double else found.whole
        parts = (
            sums[total][used] if total >= 0 else None,
            values_of_keys(found.low[least][used], largest=False, double=double)
            if least >= 0
            else None,
            values_of_keys(found.high[largest][used], largest=False, double=double)
            if largest >= 0
            else None,
        )
        return Moments(counts, parts, kind)

    return make


def _values(key: Key, numbers: Codes) -> pa.Array[Any]:
    if key.texts is not None:
        return key.texts.take(numbers)
    return pa.array(numbers).cast(key.kind)


def windows_of(places: Codes, window: SelectWindow) -> tuple[Codes, Codes]:
    """Compute the first and the last window of each place.

    Where windows overlap, a place is the sum of both. An event that is ``offset`` after the start
    of its last window is in ``within // slide`` windows if ``offset >= within % slide``, and in one
    more otherwise: the sum is odd or even.

    Examples
    --------
    >>> first, last = windows_of(np.array([0, 1, 2]), SelectWindow(Extent.TIME, within=3, slide=2))
    >>> first.tolist(), last.tolist()
    ([0, 0, 1], [0, 1, 1])
    """
    if window.extent is Extent.NONE or window.within == window.slide:
        return places, places
    overlap = window.within // window.slide
    more = (places + overlap) % 2 == 0
    last = (places + overlap) // 2
    return np.where(more, last - overlap, last - overlap + 1), last
