"""Number groups and windows of events on the device, and fold columns into them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.conditions import Form
from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.conditions import predicate_of
from cepheid.accelerator.kernels.folds import NO_LARGEST, NO_LEAST
from cepheid.accelerator.kernels.slots import add_digit, find_extent, slot_kernel
from cepheid.accelerator.uploading import Uploaded

BLOCKS_MAX = 132 * 16
THREADS = 256
SIMULATED_THREADS = 8


class Digit(NamedTuple):
    """A column of keys on the device, its lowest value, and the number of values from there."""

    column: Any
    lowest: int
    base: int


class Slotting(NamedTuple):
    """The windows of slots: their kind, see ``kernels/slots.py``, and the places in time."""

    windows: int
    within: int
    slide: int
    lowest: int
    span: int


def grid_of(length: int) -> tuple[int, int]:
    """Choose the blocks and threads of a kernel that strides over events."""
    threads = SIMULATED_THREADS if find_device()[0] is Found.SIMULATOR else THREADS
    return max(min(-(-length // threads), BLOCKS_MAX), 1), threads


def extent_of(column: Any) -> tuple[int, int]:
    """Find the least and the largest value of a column of whole numbers on the device."""
    extent = cuda.to_device(np.array([NO_LEAST, NO_LARGEST]))
    find_extent[grid_of(len(column))](column, extent)
    least, largest = extent.copy_to_host()
    return int(least), int(largest)


def number_slots(
    there: Uploaded, form: Form, constants: tuple[NDArray[Any], NDArray[Any]], times: Any,
    digits: list[Digit], slotting: Slotting,
) -> Any:  # fmt: skip
    """Compute the slot of every event, -1 where the condition is not true."""
    length = len(times)
    slots = cuda.device_array(length, np.int32)
    grid = grid_of(length)
    for place, digit in enumerate(digits):
        add_digit[grid](digit.column, digit.lowest, digit.base if place else 0, slots)
    kernel = slot_kernel(predicate_of(form), slotting.windows, grouped=bool(digits))
    kernel[grid](there.for_conditions(constants), times, *slotting[1:], slots)
    return slots
