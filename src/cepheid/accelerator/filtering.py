"""Filter events in pinned memory of the host: batches flow in, rows flow back, both at once.

A batch is copied to the device, counted, scanned and compacted by one stream. The host waits only
for the number of its rows, and by then the next batches are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.compaction import filter_kernels, scan_kernel
from cepheid.accelerator.launches import ITEMS, scan_threads

BATCH = 1 << 23
SLOTS = 3
"""Batches under way: one is copied in, one is compacted, the rows of one are copied back."""


def pinned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return memory of the host that the device copies from and to without help of the CPU."""
    return np.asarray(cuda.pinned_array(shape, dtype))


class _Slot:
    """Room on the device for one batch, and the stream that works on it."""

    def __init__(self, columns: NDArray[Any], batch: int, tile: int) -> None:
        blocks = -(-batch // tile)
        self.stream = cuda.stream()
        self.columns = cuda.device_array((len(columns), batch), columns.dtype)
        self.counts = cuda.device_array(blocks, np.int32)
        self.offsets = cuda.device_array(blocks, np.int64)
        self.rows = cuda.device_array(batch, np.int64)
        self.total = cuda.device_array(1, np.int64)
        self.found = pinned((1,), np.int64)
        self.done: Any = cuda.event()


def filter_from_host(
    columns: NDArray[Any], predicate: Callable[..., Any], rows: NDArray[np.int64], *,
    batch: int = BATCH, slots: int = SLOTS,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the events for which a predicate is true, in order, as a part of ``rows``.

    Parameters
    ----------
    columns
        (column, event) in pinned memory; ordinary memory works, and is slower than the link.
    predicate
        As for ``operators.filter_events``.
    rows
        Room for all events, in pinned memory.
    """
    length = columns.shape[1]
    threads = 8 if find_device()[0] is Found.SIMULATOR else 128
    batch = max(min(batch, length), 1)
    places = [_Slot(columns, batch, threads * ITEMS) for _ in range(slots)]
    waiting: list[_Slot] = []
    at = 0
    for number, first in enumerate(range(0, length, batch)):
        slot = places[number % slots]
        if len(waiting) == slots - 1:
            at = _copy_back(waiting.pop(0), rows, at)
        size = min(batch, length - first)
        _compact(slot, columns[:, first : first + size], first, predicate, threads)
        waiting.append(slot)
    for slot in waiting:
        at = _copy_back(slot, rows, at)
    cuda.synchronize()
    return rows[:at]


def _compact(
    slot: _Slot, part: NDArray[Any], first: int, predicate: Callable[..., Any], threads: int
) -> None:
    """Put the work on a batch into the stream of its slot."""
    stream, size = slot.stream, part.shape[1]
    there = slot.columns if size == slot.columns.shape[1] else slot.columns[:, :size]
    for row, source in enumerate(part):
        there[row].copy_to_device(source, stream=stream)
    count, write = filter_kernels(predicate, threads, ITEMS)
    blocks = -(-size // (threads * ITEMS))
    count[blocks, threads, stream](there, slot.counts[:blocks])
    scan = scan_kernel(scan_threads())
    scan[1, scan_threads(), stream](slot.counts[:blocks], slot.offsets[:blocks], slot.total)
    write[blocks, threads, stream](there, slot.offsets[:blocks], first, slot.rows)
    slot.total.copy_to_host(slot.found, stream=stream)
    slot.done.record(stream)


def _copy_back(slot: _Slot, rows: NDArray[np.int64], at: int) -> int:
    """Copy the rows of a batch behind those of the batches before; return where they end."""
    slot.done.synchronize()
    count = int(slot.found[0])
    if count:
        slot.rows[:count].copy_to_host(rows[at : at + count], stream=slot.stream)
    return at + count
