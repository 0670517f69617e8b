"""Columns on the device: what the host would compute from them, event by event."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

_INFINITY = np.int64(0x7FF0000000000000)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
_NO_VALUE = np.int64(2**63 - 1)
_NAN_KEY = np.int64(2**63 - 2)
_LARGE, _SMALL = 2.0**400, 2.0**-400


@cuda.jit(device=True)
def order_key(bits):
    """Map the bits of a double to a whole number of the same order, NaN last and one zero."""
    magnitude = bits & _MAGNITUDE
    if magnitude > _INFINITY:
        return _NAN_KEY
    if magnitude == 0:
        return magnitude
    return bits ^ _MAGNITUDE if bits < 0 else bits


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


@cuda.jit
def weigh(column, row, verdict):
    """Write values as weights; set the third flag if doubles with one exponent do not hold one."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), row.shape[0], step):
        weight = float(column[i])
        size = abs(weight)
        if not math.isfinite(weight) or (size != 0.0 and (size > _LARGE or size < _SMALL)):
            verdict[2] = 1
        row[i] = weight


@cuda.jit
def weigh_alike(row):
    """Write one as the weight of every event."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), row.shape[0], step):
        row[i] = 1.0


@cuda.jit
def rank_doubles(bits, largest, row):
    """Write the keys of doubles in their order, which is turned round for the largest."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), row.shape[0], step):
        key = order_key(bits[i])
        row[i] = ~key if largest else key


@cuda.jit
def rank_whole(column, largest, row, verdict):
    """Write the keys of whole numbers; set the fourth flag if one stands for no value."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), row.shape[0], step):
        key = ~column[i] if largest else column[i]
        if key == _NO_VALUE:
            verdict[3] = 1
        row[i] = key


@cuda.jit
def count_off(row):
    """Write the number of every event."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), row.shape[0], step):
        row[i] = i


@cuda.jit
def find_places(rows, edges):
    """Replace row numbers (side, edge) by the numbers of sorted rows that are smaller."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for place in range(cuda.grid(1), edges.shape[0] * edges.shape[1], step):
        side, k = place // edges.shape[1], place % edges.shape[1]
        first, last = 0, rows.shape[0]
        while first < last:
            middle = (first + last) // 2
            if rows[middle] < edges[side, k]:
                first = middle + 1
            else:
                last = middle
        edges[side, k] = first
