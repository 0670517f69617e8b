"""Compile all listed kernels into the cache ahead of time, on all cores."""

from __future__ import annotations

import importlib
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import NamedTuple

from cepheid.kernels import cache
from cepheid.kernels.costs import Listed, listed
from cepheid.kernels.signature import split
from cepheid.kernels.tiers import Kernel


class Done(NamedTuple):
    """The progress: kernels that are ready, of all, and the remaining seconds of work."""

    ready: int
    total: int
    left_s: float


def missing() -> list[Listed]:
    """Find the kernels that are not in the cache."""
    return [
        entry
        for entry in listed()
        if cache.load(cache.name_of(entry.kernel, entry.signature, entry=True)) is None
    ]


def warm(processes: int | None = None) -> Iterator[Done]:
    """Compile every missing kernel, and yield the progress after each group."""
    groups: dict[str, list[Listed]] = defaultdict(list)
    # Kernels of a module share their callees, which one process compiles once.
    for entry in missing():
        groups[entry.kernel.partition(".")[0]].append(entry)
    total, left = len(listed()), [entry for group in groups.values() for entry in group]
    ready, left_s = total - len(left), sum(entry.seconds for entry in left)
    yield Done(ready, total, left_s)
    if not left:
        return
    longest_first = sorted(groups.values(), key=lambda group: -sum(e.seconds for e in group))
    count = processes or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_prepare_all, group): group for group in longest_first}
        for future in as_completed(running):
            future.result()
            ready += len(running[future])
            left_s -= sum(entry.seconds for entry in running[future])
            yield Done(ready, total, max(left_s, 0.0))


def _prepare_all(group: list[Listed]) -> None:
    # Loads numba, in a process of its own.
    from cepheid.kernels.machine import type_of

    for entry in group:
        importlib.import_module(f"cepheid.kernels.{entry.kernel.partition('.')[0]}")
        kinds = tuple(map(type_of, split(entry.signature)))
        Kernel.registry[entry.kernel].entry.compile(kinds)
