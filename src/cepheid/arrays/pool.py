"""Large arrays whose memory is used again: a length and a type in, an array without content out.

The system takes long to hand out new pages: on a virtual machine several times as long as a loop
over them. NumPy gives the memory of large arrays back at once, and Arrow after some milliseconds.
So memory of arrays that nobody uses any more waits here for the next ones, up to a limit: what a
batch of events took serves the next, and then the rows.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 1 << 16
"""Bytes from which the memory of an array is used again."""
IDLE_MAX = 1 << 27
"""Bytes that wait, at most."""
MANY_ROWS = 1 << 16
"""Rows of a batch from which its arrays are worth the C library's attention."""
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""The names that ``mallopt`` has for what it sets."""
OWN_PAGES = 1 << 25
"""Bytes from which the C library asks for pages of an array's own: its maximum."""
CHOSEN = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables of the environment by which a user chooses what the C library does."""
STEPS = 4
"""Sizes between two powers of two: an array gets the next larger size."""


class _Idle:
    """Memory that waits for the next array: that of the size which is unused for longest leaves."""

    def __init__(self) -> None:
        self._of_size: OrderedDict[int, list[NDArray[np.uint8]]] = OrderedDict()
        self._bytes = 0
        # The garbage collector may bring memory back while the same thread is in here.
        self._lock = RLock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return memory of a size, new if none waits."""
        with self._lock:
            waiting = self._of_size.get(size)
            if waiting:
                self._bytes -= size
                return waiting.pop()
        return np.empty(size, np.uint8)

    def put(self, memory: NDArray[np.uint8]) -> None:
        """Keep memory for the next array."""
        size = len(memory)
        if size > IDLE_MAX:
            return
        with self._lock:
            self._of_size.setdefault(size, []).append(memory)
            self._of_size.move_to_end(size)
            self._bytes += size
            while self._bytes > IDLE_MAX:
                oldest, waiting = next(iter(self._of_size.items()))
                if waiting:
                    waiting.pop(0)
                    self._bytes -= oldest
                if not waiting:
                    # The garbage collector may have come here in between, and removed it.
                    self._of_size.pop(oldest, None)


_IDLE = _Idle()


class _Owner:
    """The base of an array: it brings the memory back when the array and all its views are gone."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        _IDLE.put(self._memory)


@cache
def keep_freed_memory() -> bool:
    """Let the C library keep what arrays give back, up to a limit; return whether it does.

    Usually glibc gives memory at the end of its heap back to the system, so a query that runs again
    and again, or batch by batch, would get new pages for the arrays in between every time.
    """
    if any(name in os.environ for name in CHOSEN):
        return False
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return False
        set_option = ctypes.CDLL(None).mallopt
    except (ValueError, OSError, AttributeError):
        return False
    return bool(set_option(MMAP_THRESHOLD, OWN_PAGES) and set_option(TRIM_THRESHOLD, IDLE_MAX))


def empty(length: int, dtype: Any = np.int64) -> NDArray[Any]:
    """Return an array that holds anything."""
    kind = np.dtype(dtype)
    size = length * kind.itemsize
    if size < LARGE:
        return np.empty(length, kind)
    owner: Any = _Owner(_IDLE.take(_rounded(size)))
    return np.asarray(owner)[:size].view(kind)


def _rounded(size: int) -> int:
    """Round a size up, so that arrays of about as many bytes share memory."""
    step = 1 << max((size - 1).bit_length() - 1, 0)
    step //= STEPS
    return -(-size // step) * step


def taken(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Select values by their places, which lie inside."""
    # With another mode, NumPy would write to an array of its own first.
    return np.take(values, rows, out=empty(len(rows), values.dtype), mode="clip")
