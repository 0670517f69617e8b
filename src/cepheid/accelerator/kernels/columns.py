"""Columns on the device: translate dictionary indices to codes, and check the order of times."""

from __future__ import annotations

from numba import cuda


@cuda.jit
def look_up(indices, table, filler, codes):
    """Write the code of every event as a byte, and padding after the last event."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), codes.shape[0], step):
        codes[i] = table[indices[i]] if i < indices.shape[0] else filler


@cuda.jit
def check_times(times, verdict):
    """Set the first flag if a time goes back, the second if two neighbours are equal."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1) + 1, times.shape[0], step):
        if times[i] < times[i - 1]:
            verdict[0] = 1
        if times[i] == times[i - 1]:
            verdict[1] = 1
