"""How work on a GPU is timed and reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from numba import cuda

RUNS = 7


def line(what: str, **figures: str) -> None:
    print(f"{what:<58}" + "  ".join(f"{k} {v}" for k, v in figures.items()), flush=True)


def device_seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the median of what a piece of work takes, by events of the device."""
    work()
    taken = []
    for _ in range(runs):
        begin, end = cuda.event(), cuda.event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(cuda.event_elapsed_time(begin, end) / 1e3)
    return statistics.median(taken)


def seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the median of what a piece of work takes, by the clock; the device included."""
    work()
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
