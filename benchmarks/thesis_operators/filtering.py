"""Filter events in pinned host memory: copies to and from the device overlap.

One CUDA stream copies, counts, scans and compacts a batch. The host waits only for the number of
its rows; meanwhile the next batches are already being copied.
"""

from __future__ import annotations

from collections import deque
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
"""Batches in flight: one is copied in, one is compacted, the rows of one are copied back."""


def pinned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Allocate pinned host memory, for copies without help of the CPU."""
    return np.asarray(cuda.pinned_array(shape, dtype))


class _Slot:
    """Device buffers for one batch, and the CUDA stream that processes it.

    Launches of whole batches are prepared once: preparing one takes longer than calling it.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, kernels: tuple[Any, Any]) -> None:
        self.size = shape[1]
        self.stream: Any = cuda.stream()
        self.columns = cuda.device_array(shape, dtype)
        self.lines = [self.columns[row] for row in range(shape[0])]
        self.threads = filter_threads()
        blocks = -(-self.size // (self.threads * ITEMS))
        self.counts = cuda.device_array(blocks, np.int32)
        self.offsets = cuda.device_array(blocks, np.int64)
        self.rows = cuda.device_array(self.size, np.int64)
        self.total = cuda.device_array(1, np.int64)
        self.found = pinned((1,), np.int64)
        self.done: Any = cuda.event()
        self.kernels = kernels
        self.whole = self._launches(blocks)

    def _launches(self, blocks: int) -> tuple[Any, Any, Any]:
        count, write = self.kernels
        scan, threads = scan_kernel(scan_threads()), scan_threads()
        return (
            count[blocks, self.threads, self.stream],
            scan[1, threads, self.stream],
            write[blocks, self.threads, self.stream],
        )

    def compact(self, part: NDArray[Any], first: int) -> None:
        """Enqueue the processing of a batch in the stream."""
        size = part.shape[1]
        if size == self.size:
            launches, lines, there = self.whole, self.lines, self.columns
            counts, offsets = self.counts, self.offsets
        else:
            blocks = -(-size // (self.threads * ITEMS))
            launches, there = self._launches(blocks), self.columns[:, :size]
            lines = [there[row] for row in range(len(part))]
            counts, offsets = self.counts[:blocks], self.offsets[:blocks]
        for line, source in zip(lines, part, strict=True):
            line.copy_to_device(source, stream=self.stream)
        count, scan, write = launches
        count(there, size, counts)
        scan(counts, offsets, self.total)
        write(there, size, offsets, first, self.rows)
        self.total.copy_to_host(self.found, stream=self.stream)
        self.done.record(self.stream)

    def copy_back(self, rows: NDArray[np.int64], at: int) -> int:
        """Copy the rows of a batch after those of earlier batches; return the new end."""
        self.done.synchronize()
        count = int(self.found[0])
        if count:
            self.rows[:count].copy_to_host(rows[at : at + count], stream=self.stream)
        return at + count


def filter_threads() -> int:
    """Choose the number of threads per block of a filter."""
    return 8 if find_device()[0] is Found.SIMULATOR else 128


class HostFilter:
    """Filters events of one shape and predicate repeatedly; reuses its device buffers.

    Parameters
    ----------
    predicate
        As for ``operators.filter_events``.
    columns, dtype
        The number of columns, and their type.
    batch, slots
        The number of events per batch, and of batches in flight.
    """

    def __init__(
        self, predicate: Callable[..., Any], columns: int, dtype: Any, *, batch: int = BATCH,
        slots: int = SLOTS,
    ) -> None:  # fmt: skip
        kernels = filter_kernels(predicate, filter_threads(), ITEMS)
        self._batch = batch
        self._slots = [_Slot((columns, batch), dtype, kernels) for _ in range(slots)]

    def run(self, columns: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Filter the events by the predicate, in order; the result is a slice of ``rows``.

        Parameters
        ----------
        columns
            (column, event) in pinned memory; ordinary memory works, and is slower than the link.
        rows
            Room for all events, in pinned memory.
        """
        length = columns.shape[1]
        waiting: deque[_Slot] = deque()
        at = 0
        for number, first in enumerate(range(0, length, self._batch)):
            slot = self._slots[number % len(self._slots)]
            if len(waiting) == len(self._slots) - 1:
                at = waiting.popleft().copy_back(rows, at)
            slot.compact(columns[:, first : first + self._batch], first)
            waiting.append(slot)
        for slot in waiting:
            at = slot.copy_back(rows, at)
        cuda.synchronize()
        return rows[:at]


def filter_from_host(
    columns: NDArray[Any], predicate: Callable[..., Any], rows: NDArray[np.int64], *,
    batch: int = BATCH, slots: int = SLOTS,
) -> NDArray[np.int64]:  # fmt: skip
    """Filter once; see ``HostFilter``."""
    batch = max(min(batch, columns.shape[1]), 1)
    once = HostFilter(predicate, len(columns), columns.dtype, batch=batch, slots=slots)
    return once.run(columns, rows)
