"""Choose the systems that are worth a kernel of their own, and build its specification."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.accelerator.kernels.compiled import Cells, Spec
from cepheid.accelerator.systems import System

DIMENSION_MAX = 4
CODES_MAX = 6
PARTS_MAX = 5
"""Larger systems need more registers than a thread has, and take long to compile."""


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
