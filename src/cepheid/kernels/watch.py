"""Watch how long a call is interpreted: what runs for longer than expected begins again elsewhere.

An estimate of a kernel's work can be wrong a thousandfold: a pattern of sixty variables costs more
for an event than one of two. So interpreted kernels ask for the time where compiled ones look for
signals, and a call that has taken longer than the next tier takes to begin is given up.
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
"""Arrays so small are always copied: it takes less than a tenth of a millisecond."""
BYTES_A_SECOND = 1e8
"""Larger ones are copied for a call that should take so long: a tenth of a fast copy's rate."""

Kept = list[tuple[NDArray[Any], NDArray[Any]]]
"""Arrays, and what was in them."""


class OverrunKernel(Exception):  # noqa: N818  # it is no error
    """A call has been interpreted for too long."""


class _Watch(threading.local):
    """Until when this thread may interpret, and who says how long it may be at most."""

    until = math.inf
    longest: Callable[[], float] | None = None


_watch = _Watch()


def check_time() -> None:
    """Stop a call that has been interpreted for too long."""
    if time.perf_counter() > _watch.until:
        _ring()


def _ring() -> None:
    longest, _watch.longest = _watch.longest, None
    if longest is not None:
        _watch.until += longest()
    if time.perf_counter() > _watch.until:
        raise OverrunKernel


@contextmanager
def watched(seconds: float, longest: Callable[[], float]) -> Iterator[None]:
    """Stop the body after some seconds, and as many more as ``longest`` returns then."""
    _watch.until, _watch.longest = time.perf_counter() + seconds, longest
    try:
        yield
    finally:
        _watch.until, _watch.longest = math.inf, None


def keep(arguments: tuple[Any, ...], seconds: float) -> Kept | None:
    """Copy what a call may write, or nothing at all where that takes too long.

    Parameters
    ----------
    seconds
        What the call should take.
    """
    arrays = list(_written(arguments))
    if sum(array.nbytes for array in arrays) > max(FREE_BYTES, seconds * BYTES_A_SECOND):
        return None
    return [(array, array.copy()) for array in arrays]


def restore(kept: Kept) -> None:
    """Undo what a call has written."""
    for array, before in kept:
        np.copyto(array, before)


def _written(arguments: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    for value in arguments:
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.size:
                yield value
        elif isinstance(value, tuple):
            yield from _written(value)
