"""A stream of the device with memory of its own: what one thread of the host works with.

Two lanes take batches in turn. While one of them computes, the other reads its batch into pinned
memory and copies it. To make room on a device stops all of it, so room is made once and used again.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device

_TURN = threading.Lock()


def turn() -> AbstractContextManager[Any]:
    """Return what a thread holds while it uses the device: nothing, but in the simulator.

    That runs one kernel at a time, and fails if another thread comes with a second.
    """
    return _TURN if find_device()[0] is Found.SIMULATOR else nullcontext()


def allocate_pinned(size: int, dtype: Any) -> NDArray[Any]:
    """Return memory of the host from which a device copies while the host goes on."""
    return np.asarray(cuda.pinned_array(max(size, 1), dtype))[:size]


class Lane:
    """A stream, and room on the device by name."""

    def __init__(self) -> None:
        self.stream: Any = cuda.stream()
        self._rooms: dict[tuple[str, str], Any] = {}

    def room(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device; what stood in it under this name is gone."""
        size = int(np.prod(shape))
        place = (name, np.dtype(dtype).str)
        if place not in self._rooms or len(self._rooms[place]) < size:
            # A little more, as batches are not of one size.
            self._rooms[place] = cuda.device_array(max(size + size // 8, 1), dtype)
        return self._rooms[place][:size].reshape(shape)

    def put(self, name: str, array: NDArray[Any]) -> Any:
        """Copy an array to the device; the stream knows when it is there."""
        there = self.room(name, array.shape, array.dtype)
        if array.size:
            there.copy_to_device(np.ascontiguousarray(array), stream=self.stream)
        return there

    def get(self, array: Any) -> NDArray[Any]:
        """Return an array of the device when the stream has come to it."""
        found = array.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return np.asarray(found)
