"""Columns on the device: indices of a dictionary to codes, and a look at times."""

from __future__ import annotations

from numba import cuda


@cuda.jit
def look_up(indices, table, filler, codes):
    """Put the code of every event into a byte, and a filler behind the last event."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), codes.shape[0], step):
        codes[i] = table[indices[i]] if i < indices.shape[0] else filler


@cuda.jit
def check_times(times, verdict):
    """Set the first number if a time comes before the one above it, the second if one is equal."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1) + 1, times.shape[0], step):
        if times[i] < times[i - 1]:
            verdict[0] = 1
        if times[i] == times[i - 1]:
            verdict[1] = 1
