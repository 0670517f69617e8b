"""A lane: a CUDA stream with its own memory, used by one host thread.

Two lanes take turns with batches. While one of them computes, the other reads its batch into pinned
memory and copies it. Allocating device memory stops the whole device, so buffers are reused.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.failures import DeviceError, reporting_failures

_TURN = threading.Lock()


def turn() -> AbstractContextManager[Any]:
    """Return the lock that a thread holds while it uses the device; only the simulator has one.

    The simulator runs one kernel at a time, and fails if another thread launches a second one.
    """
    return _TURN if find_device()[0] is Found.SIMULATOR else nullcontext()


def allocate_pinned(size: int, dtype: Any) -> NDArray[Any]:
    """Allocate pinned host memory, from which a device copies asynchronously.

    If the driver has none left, it is ordinary memory, from which copies take longer.
    """
    try:
        with reporting_failures():
            return np.asarray(cuda.pinned_array(max(size, 1), dtype))[:size]
    except DeviceError:
        return np.empty(size, dtype)


def is_there(array: Any) -> bool:
    """Check whether an array is on the device."""
    return hasattr(array, "copy_to_host")


class Lane:
    """A CUDA stream, and named buffers on the device."""

    def __init__(self) -> None:
        self.stream: Any = cuda.stream()
        self._rooms: dict[tuple[str, str], Any] = {}

    def room(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the device buffer of a name; its previous content is lost."""
        size = int(np.prod(shape))
        place = (name, np.dtype(dtype).str)
        if place not in self._rooms or len(self._rooms[place]) < size:
            # A little more, because batches differ in size.
            self._rooms[place] = cuda.device_array(max(size + size // 8, 1), dtype)
        return self._rooms[place][:size].reshape(shape)

    def put(self, name: str, array: NDArray[Any]) -> Any:
        """Copy an array to the device asynchronously, unless it is there, in stream order."""
        if is_there(array):
            return array
        there = self.room(name, array.shape, array.dtype)
        if array.size:
            there.copy_to_device(np.ascontiguousarray(array), stream=self.stream)
        return there

    def get(self, array: Any) -> NDArray[Any]:
        """Copy an array from the device, once the stream has reached this point."""
        found = array.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return np.asarray(found)
