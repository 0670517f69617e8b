"""Cut events into stretches on the device: conditions and an order by partition in, places out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.conditions import Form
from cepheid.accelerator.grouping import grid_of
from cepheid.accelerator.kernels import stretches as kernels
from cepheid.accelerator.kernels.columns import count_off
from cepheid.accelerator.kernels.conditions import predicate_of
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.selecting import rows_on_device

FLAGGED: Form = ("known", 0, 0)
"""The form of the condition that an event is marked."""

Ints = NDArray[np.int64]


class Lasting(NamedTuple):
    """A condition that must hold for a time and for a number of events."""

    number: int
    duration: int
    events: int


class Order(NamedTuple):
    """The rows of events by partition, in time order, and the first place of each partition."""

    rows: Any
    heads: Any

    @staticmethod
    def of_one(length: int) -> Order:
        """Take all events as one partition."""
        rows = cuda.device_array(length, np.int64)
        count_off[grid_of(length)](rows)
        return Order(rows, device_of(np.zeros(1, np.int64)))

    @staticmethod
    def by(key: Ints) -> Order | None:
        """Sort events by partition, but those of number -1; None if none is left."""
        rows = np.flatnonzero(key >= 0)
        if not len(rows):
            return None
        rows = rows[np.argsort(key[rows], kind="stable")]
        heads = np.flatnonzero(np.diff(key[rows], prepend=-1))
        return Order(device_of(rows), device_of(heads))


class Cuts(NamedTuple):
    """Stretches in the order of their first rows: these, their last rows, and their conditions.

    ``slots`` has the stretch of every row on the device, -1 where no aggregate is needed.
    """

    first: Ints
    last: Ints
    bits: Ints
    slots: Any


def cut_there(
    columns: tuple[Any, ...], forms: Sequence[Form], times: Any, order: Order, *,
    splits: bool, lasting: Sequence[Lasting], needed: int,
) -> Cuts:  # fmt: skip
    """Cut the events of an order into stretches of equal conditions."""
    rows, count = order.rows, len(order.rows)
    grid = grid_of(count)
    bits = device_of(np.zeros(count, np.int64))
    for number, form in enumerate(forms):
        kernels.bit_kernel(predicate_of(form))[grid](columns, rows, number, bits)
    heads = device_of(np.zeros(count, np.uint8))
    kernels.mark[grid_of(len(order.heads))](order.heads, heads)
    points = cuda.device_array((1, count), np.uint8)
    kernels.mark_changes[grid](bits, heads, points[0])
    for one in lasting:
        runs = cuda.device_array((1, count), np.uint8)
        kernels.mark_runs[grid](bits, heads, one.number, runs[0])
        begun = _places(runs, count)
        if begun is not None:
            kernels.mark_lasting[grid](bits, heads, rows, times, *one, begun, points[0])
    if splits:
        kernels.mark_splits[grid](rows, times, heads, _places(points, count), points[0])
    begins = _places(points, count)
    at = np.asarray(begins.copy_to_host())
    own = rows.copy_to_host()
    first, last = own[at], own[np.append(at[1:], count) - 1]
    by_row = np.argsort(first, kind="stable")
    ranks = np.empty(len(at), np.int64)
    ranks[by_row] = np.arange(len(at))
    slots = device_of(np.full(len(times), -1, np.int64))
    kernels.number_stretches[grid](begins, rows, bits, needed, device_of(ranks), slots)
    found = np.asarray(bits.copy_to_host())[at]
    return Cuts(first[by_row], last[by_row], found[by_row], slots)


def _places(flags: Any, count: int) -> Any:
    """Find the places that are marked, in order; None if none is."""
    return rows_on_device((flags, flags, flags), FLAGGED, count)
