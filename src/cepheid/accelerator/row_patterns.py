"""Search row patterns on the device: conditions and tables in, the state of every row out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.grouping import grid_of
from cepheid.accelerator.kernels import row_patterns as kernels
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.linear import default_sizes

CHUNKS = 1 << 12
"""Chunks at most: one thread joins their functions."""

CHUNK_MIN = 64
SIMULATED_CHUNK = 4

Bytes = NDArray[np.uint8]


class Taken(NamedTuple):
    """The state that takes each row, 0 for none, and what the row is; see the kernels."""

    states: Bytes
    kinds: Bytes


def take_rows(
    masks: NDArray[np.bool_], bounds: NDArray[np.int64], allowed: Bytes, completes: Bytes,
    following: Bytes,
) -> Taken:  # fmt: skip
    """Find the matches of partitions, each after the last row of the one before it."""
    count, begin = int(bounds[-1] - bounds[0]), int(bounds[0])
    if not count:
        return Taken(np.zeros(0, np.uint8), np.zeros(0, np.uint8))
    threads = default_sizes().threads
    chunk = max(-(-count // CHUNKS), SIMULATED_CHUNK if threads < 32 else CHUNK_MIN)
    chunks = -(-count // chunk)
    grid, apiece = grid_of(count), (-(-chunks // threads), threads)
    own = bounds[np.append(True, np.diff(bounds) > 0)] - begin
    heads, lasts = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    heads[own[:-1]] = 1
    lasts[own[1:] - 1] = 1
    there_heads, there_lasts = device_of(heads), device_of(lasts)
    tables = device_of(allowed), device_of(completes)
    letters, viable, states, kinds = (cuda.device_array(count, np.uint8) for _ in range(4))
    maps = cuda.device_array((chunks, kernels.IMAGES), np.uint8)
    ends: Any = cuda.device_array(chunks, np.uint8)
    rows = masks[:, begin : begin + count].view(np.uint8)
    kernels.spell[grid](device_of(rows), letters)
    kernels.map_backwards[apiece](letters, there_lasts, *tables, chunk, maps)
    kernels.join_backwards[1, 1](maps, ends)
    kernels.fill_backwards[apiece](letters, there_lasts, *tables, chunk, ends, viable)
    moves = device_of(following)
    kernels.map_forwards[apiece](viable, there_heads, moves, chunk, maps)
    kernels.join_forwards[1, 1](maps, ends)
    kernels.fill_forwards[apiece](viable, there_heads, moves, chunk, ends, states, kinds)
    return Taken(np.asarray(states.copy_to_host()), np.asarray(kinds.copy_to_host()))
