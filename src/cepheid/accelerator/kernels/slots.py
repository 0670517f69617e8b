"""Number the groups and the windows of events on the device: the slot of every event."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, int64

from cepheid.accelerator.kernels.folds import NO_SLOT

WHOLE, TUMBLING, SLIDING = range(3)
"""One window over all events; windows of which an event is in one; windows that overlap."""


@cuda.jit
def find_extent(column, extent):
    """Find the least and the largest value of a column."""
    step = cuda.gridDim.x * cuda.blockDim.x
    first = cuda.grid(1)
    if first < column.shape[0]:
        least = int64(column[first])
        largest = least
        for i in range(first, column.shape[0], step):
            value = int64(column[i])
            least, largest = min(least, value), max(largest, value)
        cuda.atomic.min(extent, 0, least)
        cuda.atomic.max(extent, 1, largest)


@cuda.jit
def add_digit(column, lowest, base, codes):
    """Append a digit to the codes of events: the distance of a key from the lowest one.

    The base is the number of digits, 0 for the first one.
    """
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), column.shape[0], step):
        before = codes[i] * base if base > 0 else 0
        codes[i] = before + (int64(column[i]) - lowest)


@functools.cache
def slot_kernel(predicate: Callable[..., Any], windows: int, *, grouped: bool) -> Any:
    """Build the kernel that turns the codes of groups to slots, by group and then by time.

    Parameters of the kernel
    ------------------------
    columns
        The columns that the predicate reads; other events get no slot.
    times
        (event,) the times.
    within, slide, lowest, span
        The windows; the lowest place in time, and the number of places. Of windows that overlap,
        the sum of the first and of the last window of an event is its place.
    slots
        (event,) codes of groups, if there are any, which become slots.
    """
    fits = cuda.jit(device=True)(predicate)

    @cuda.jit
    def kernel(columns, times, within, slide, lowest, span, slots):
        step = cuda.gridDim.x * cuda.blockDim.x
        for i in range(cuda.grid(1), slots.shape[0], step):
            place = int64(0)
            inside = True
            if windows == TUMBLING:
                place = times[i] // slide
            if windows == SLIDING:
                last = times[i] // slide
                first = (times[i] - within) // slide + 1
                place = first + last
                inside = first <= last
            if inside and fits(columns, i):
                code = int64(slots[i]) if grouped else int64(0)
                slots[i] = code * span + (place - lowest)
            else:
                slots[i] = NO_SLOT

    return kernel
