"""Summarise events on the device with a kernel that is compiled for one system.

Queries use the kernel that looks into tables (``cepheid.accelerator.linear``): compiling takes
seconds, which only events that lie on the device already would pay back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.thesis_operators.one_system import Cells, Spec
from benchmarks.thesis_operators.one_system_chunks import compiled_kernel
from numpy.typing import NDArray

from cepheid.accelerator.linear import DeviceSystem, Matrices, Sizes
from cepheid.accelerator.systems import System

DIMENSION_MAX = 4
CODES_MAX = 6
PARTS_MAX = 5
"""Larger systems need more registers than a thread has, and take long to compile."""


def aggregate_compiled(
    device: DeviceSystem, events: tuple[Any, Any, Any], ptr: Any, sizes: Sizes, flags: Any, *,
    out: Matrices | None = None,
) -> Matrices:  # fmt: skip
    """Summarise as ``aggregate`` of a system does, with a kernel compiled for the system."""
    spec = spec_of(device.system)
    assert spec is not None, "the system is small enough"
    out = device.empty(len(ptr) - 1) if out is None else out
    blocks = -(-(len(ptr) - 1) // sizes.threads)
    compiled_kernel(spec)[blocks, sizes.threads](
        device.openings, device.system.steady, *events, ptr, *out, flags
    )
    return out


def spec_of(system: System) -> Spec | None:
    """Convert a system to tuples; None if it is too large to be compiled into a kernel."""
    codes, d = system.identity, system.dimension
    parts, mins = len(system.weighs), len(system.values)
    if codes > CODES_MAX or d > DIMENSION_MAX or parts + mins > PARTS_MAX:
        return None
    return Spec(
        d,
        system.starts,
        parts,
        mins,
        tuple(_rows(matrix) for matrix in system.kept[:codes]),
        tuple(_rows(matrix) for matrix in system.gained[:codes]),
        _rows(system.weighs.T),
        _rows(system.values.T),
    )


def _rows(matrix: NDArray[np.generic]) -> Cells:
    """Collect the columns of the ones in every row."""
    return tuple(tuple(int(place) for place in np.flatnonzero(row)) for row in matrix)
