"""The cost figures that decide whether a kernel is interpreted, loaded or compiled."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

_RATE_S = 4e-6
_RATES_S = {
    "graph.run_segments": 30e-6,
    "linear.aggregate_linear": 9e-6,
    "next_match.run_next_segments": 30e-6,
    "panes.aggregate_panes": 32e-6,
    "prefix_wide.run_wide": 55e-6,
    "shared_lanes.run_shared": 25e-6,
    "shared_panes.run_shared_panes": 30e-6,
    "shared_start_sums.sum_shared_starts": 12e-6,
    "shared_trailing.run_shared_trailing": 40e-6,
    "shared_trailing_counts.count_shared_trailing": 12e-6,
    "temporal_join.join": 10e-6,
    "trailing.aggregate_trailing": 40e-6,
}
"""Seconds to interpret an event, where they exceed the default; measured on real trades."""
ARRAY_RATE_S = 0.1e-6
"""Seconds to interpret an event, at most, where the interpreter has a body over whole arrays."""
LOAD_S = 0.05
"""Seconds to load LLVM, and to look into the cache for the first time."""
LINK_S = 0.004
"""Seconds to link one more kernel from the cache."""
_NUMBA_S = 0.5
"""Seconds to load numba, which compiles."""
_DEFAULT_COMPILE_S = 10.0
LIST = "signatures.txt"
"""The list of kernels, a file beside this one."""


class Listed(NamedTuple):
    """A kernel, argument types of its calls, and its compile time on two cores."""

    seconds: float
    kernel: str
    signature: str


def rate_seconds(name: str) -> float:
    """Estimate the seconds that the interpreter takes for one unit of a kernel's work."""
    return _RATES_S.get(name, _RATE_S)


@functools.cache
def listed() -> tuple[Listed, ...]:
    """List all kernels that Python calls, for all types that the tests call them with."""
    text = resources.files("cepheid.kernels").joinpath(LIST).read_text("utf-8")
    lines = (line.split(" ", 2) for line in text.splitlines())
    return tuple(Listed(float(seconds), name, rest) for seconds, name, rest in lines)


@functools.cache
def called_from_python() -> frozenset[str]:
    """List the names of the kernels in the list."""
    return frozenset(entry.kernel for entry in listed())


@functools.cache
def _slowest() -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in listed():
        found[entry.kernel] = max(entry.seconds, found.get(entry.kernel, 0.0))
    return found


def compile_seconds(name: str) -> float:
    """Estimate the compile time of a kernel, and the time to load the compiler."""
    return _NUMBA_S + _slowest().get(name, _DEFAULT_COMPILE_S)
