"""Kernels have types that numba finds; the simulator runs Python, which does not ask for them.

Without a device, the compiler for the CPU infers types by the same rules. It reads the kernels with
one thread instead of many.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cepheid.accelerator.kernels as package
from cepheid.kernels.row_pattern_tables import SETS

KERNELS = Path(str(package.__file__)).parent
ONE_THREAD = {
    "@cuda.jit(device=True)": "@njit",
    "@cuda.jit": "@njit",
    "cuda.jit(device=True)(predicate)": "njit(predicate)",
    "cuda.grid(1)": "0",
    "cuda.gridDim.x * cuda.blockDim.x": "1",
    "cuda.local.array(IMAGES, uint8)": "np.empty(IMAGES, np.uint8)",
    "from numba import cuda": "from numba import njit",
}
COUNT = 4


def kernels_of(name: str) -> dict[str, Any]:
    """Return what a module of kernels defines, for the CPU."""
    text = (KERNELS / name).read_text(encoding="utf-8")
    for there, here in ONE_THREAD.items():
        text = text.replace(there, here)
    assert "cuda." not in text.partition('"""\n\n')[2]
    found: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), found)  # it is the project's own source
    return found


def flags(count: int = COUNT) -> Any:
    return np.zeros(count, np.uint8)


def whole(count: int = COUNT) -> Any:
    return np.zeros(count, np.int64)


def test_kernels_of_row_patterns() -> None:
    own, sets = kernels_of("row_patterns.py"), (flags(SETS), flags(SETS))
    maps, moves = np.zeros((1, own["IMAGES"]), np.uint8), np.zeros((2, SETS), np.uint8)
    own["spell"](np.zeros((2, COUNT), np.uint8), flags())
    own["map_backwards"](flags(), flags(), *sets, COUNT, maps)
    own["join_backwards"](maps, flags(1))
    own["fill_backwards"](flags(), flags(), *sets, COUNT, flags(1), flags())
    own["map_forwards"](flags(), flags(), moves, COUNT, maps)
    own["join_forwards"](maps, flags(1))
    own["fill_forwards"](flags(), flags(), moves, COUNT, flags(1), flags(), flags())
    assert not maps.any(), "no state has a condition that holds"


def test_kernels_of_stretches() -> None:
    own, order, heads = kernels_of("stretches.py"), np.arange(COUNT), flags()
    bits, points = whole(), flags()
    own["mark"](whole(1), heads)
    own["bit_kernel"](lambda columns, i: columns[0][0, i] > 1)(
        (order.reshape(1, -1),), order, 0, bits
    )
    own["mark_changes"](bits, heads, points)
    assert points.tolist() == [1, 0, 1, 0]
    own["mark_runs"](bits, heads, 0, points)
    assert points.tolist() == [0, 0, 1, 0]
    own["mark_lasting"](bits, heads, order, order, 0, 1, 2, np.array([2]), points)
    assert points.tolist() == [0, 0, 1, 1]
    own["mark_splits"](order, order, heads, whole(1), points)
    slots = whole()
    own["number_stretches"](np.array([0, 2]), order, bits, 1, np.array([0, 1]), slots)
    assert slots.tolist() == [-1, -1, 1, 1]
