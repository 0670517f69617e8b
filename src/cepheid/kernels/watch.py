"""Watch the time of interpreted calls: a call that takes too long is restarted as machine code.

An estimate of a kernel's work can be wrong a thousandfold: a pattern of sixty variables costs more
per event than one of two. So interpreted kernels check the clock where compiled ones poll for
signals, and a call that has taken longer than the start-up of the next tier is aborted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE_BYTES = 1 << 20
"""Arrays up to this size are always copied: it takes less than a tenth of a millisecond."""
BYTES_A_SECOND = 1e8
"""Larger arrays are copied if the call is expected to be long: a tenth of a fast copy's rate."""

Kept = list[tuple[NDArray[Any], NDArray[Any]]]
"""Arrays, and copies of their content."""


class OverrunKernel(Exception):  # noqa: N818  # it is no error
    """A call was interpreted for too long."""


class _Watch(threading.local):
    """The deadline of this thread's interpreted call, and the function that can extend it.

    The clock is quick to read, and on a busy machine the thread runs only part of the time.
    """

    until = math.inf
    """The earliest time of the clock at which the call can have taken too long."""
    until_cpu = math.inf
    """The processor time of the thread at which it has."""
    longest: Callable[[], float] | None = None


_watch = _Watch()


def check_time() -> None:
    """Abort a call that has been interpreted for too long."""
    if time.perf_counter() > _watch.until:
        _ring()


def _ring() -> None:
    longest = _watch.longest
    if longest is not None and time.thread_time() > _watch.until_cpu:
        _watch.longest = None
        _watch.until_cpu += longest()
    left_s = _watch.until_cpu - time.thread_time()
    if left_s < 0:
        raise OverrunKernel
    _watch.until = time.perf_counter() + left_s


@contextmanager
def watched(seconds: float, longest: Callable[[], float]) -> Iterator[None]:
    """Abort the body after some seconds of work, extended by ``longest`` at that time."""
    _watch.until, _watch.longest = time.perf_counter() + seconds, longest
    _watch.until_cpu = time.thread_time() + seconds
    try:
        yield
    finally:
        _watch.until, _watch.until_cpu, _watch.longest = math.inf, math.inf, None


def keep(arguments: tuple[Any, ...], seconds: float) -> Kept | None:
    """Copy the arrays that a call may write, or nothing at all if that takes too long.

    Parameters
    ----------
    seconds
        The expected time of the call.
    """
    arrays = list(_written(arguments))
    if sum(array.nbytes for array in arrays) > max(FREE_BYTES, seconds * BYTES_A_SECOND):
        return None
    return [(array, array.copy()) for array in arrays]


def restore(kept: Kept) -> None:
    """Undo the writes of a call."""
    for array, before in kept:
        np.copyto(array, before)


def _written(arguments: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    for value in arguments:
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.size:
                yield value
        elif isinstance(value, tuple):
            yield from _written(value)
