"""Run a system over segments of events for every value of its parameters, on the device.

One parameter has step functions: chunks of events have a matrix for every cell, and results are
products of them (``kernels/sweep_steps.py``). Two have a thread for every pair of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.kernels.sweep_steps import cell_kernel, product_of_cells
from cepheid.accelerator.kernels.sweeps import sweep_kernel
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.linear import DeviceSystem, Sizes, default_sizes, rows_of
from cepheid.accelerator.room import events_at_once
from cepheid.accelerator.systems import shared_bytes

RESULTS_MAX = 1 << 24
"""Results that are on the device at once."""

CHUNK_EVENTS = 256
"""Events of a chunk: few cells each, and few products for a result."""

Ints = NDArray[np.int64]


class SweptEvents(NamedTuple):
    """Events, their codes for what they pass, and their ranks on both scales."""

    codes: NDArray[Any]
    weights: NDArray[Any]
    values: Ints
    ranks: tuple[Ints, Ints]
    below: tuple[bool, bool]


class Swept(NamedTuple):
    """Results that have a match: segments, numbers of values, numbers, and value keys."""

    segment: Ints
    value: Ints
    numbers: NDArray[np.complex128]
    least: Ints


def sweep_segments(
    device: DeviceSystem, events: SweptEvents, begin: Ints, end: Ints, sides: tuple[int, int],
    counts: NDArray[np.bool_],
) -> Iterator[Swept | None]:  # fmt: skip
    """Compute the aggregates of segments for all values, some segments at a time.

    ``sides`` are the numbers of values of both parameters. Yields None, and ends, if doubles with
    a shared exponent run out of range.
    """
    sizes, system = default_sizes(), device.system
    total = sides[0] * sides[1]
    kernel = sweep_kernel(system.dimension, system.starts, device.parts, device.mins)
    fixed = (
        device.kept, device.gained, device.weighs, device.picks, device.openings, device_of(counts),
        device_of(events.codes), device_of(rows_of(events.weights, device.parts - 1, np.float64)),
        device_of(rows_of(events.values, device.mins, np.int64)), *map(device_of, events.ranks),
        *events.below, sides[1],
    )  # fmt: skip
    each = max(events_at_once(RESULTS_MAX) // total, 1)
    blocks = -(-total // sizes.threads)
    for first in range(0, len(begin), each):
        part = slice(first, first + each)
        count = len(begin[part])
        out = cuda.device_array((count * total, device.parts, 2), np.float64)
        least = cuda.device_array((count * total, max(device.mins, 1)), np.int64)
        flags = cuda.to_device(np.zeros(1, np.int32))
        kernel[blocks * count, sizes.threads, 0, shared_bytes(system)](
            *fixed, device_of(begin[part]), device_of(end[part]), total, out, least, flags
        )
        if flags.copy_to_host()[0]:
            yield None
            return
        numbers = np.asarray(out.copy_to_host())
        some = np.flatnonzero(numbers[:, 0, 0] != 0)
        yield Swept(
            first + some // total, some % total,
            np.ascontiguousarray(numbers[some]).view(np.complex128)[..., 0],
            np.asarray(least.copy_to_host())[some, : device.mins],
        )  # fmt: skip


class Cells(NamedTuple):
    """Step functions of chunks or segments: the first cell of each, their owners and begins."""

    ptr: Ints
    owner: Ints
    value: Ints


def cells_of(owner: Ints, ranks: Ints, count: int, values: int) -> Cells:
    """Collect the ranks at which something changes, for every owner; all have a cell from 0 on."""
    changes = (ranks > 0) & (ranks < values)
    both = np.concatenate([np.arange(count), owner[changes]])
    begin = np.concatenate([np.zeros(count, np.int64), ranks[changes]])
    steps = np.sort(both * (values + 1) + begin)
    steps = steps[np.append(True, steps[1:] != steps[:-1])]
    which, begin = np.divmod(steps, values + 1)
    return Cells(np.searchsorted(which, np.arange(count + 1)), which, begin)


def sweep_steps(
    device: DeviceSystem, events: SweptEvents, begin: Ints, end: Ints, values: int,
    counts: NDArray[np.bool_], relevant: NDArray[np.bool_],
) -> Swept | None:  # fmt: skip
    """Compute the step functions of segments for all values of one parameter.

    ``relevant`` are the events that the condition is about. Returns None if doubles with a shared
    exponent run out of range.
    """
    sizes, system = default_sizes(), device.system
    length = end - begin
    number = -(-length // CHUNK_EVENTS)
    chunk_ptr = np.concatenate([[0], np.cumsum(number)]).astype(np.int64)
    segment = np.repeat(np.arange(len(begin)), number)
    first = begin[segment] + (np.arange(len(segment)) - chunk_ptr[segment]) * CHUNK_EVENTS
    last = np.minimum(first + CHUNK_EVENTS, end[segment])
    rows, owner = _rows_of(first, last, relevant)
    ranks = events.ranks[0][rows]
    of_chunks = cells_of(owner, ranks, len(first), values)
    of_segments = cells_of(segment[owner], ranks, len(begin), values)
    matrices = _matrices(device, events, (first, last), of_chunks, sizes)
    if matrices is None:
        return None
    results = len(of_segments.value)
    out = cuda.device_array((results, device.parts, 2), np.float64)
    least = cuda.device_array((results, max(device.mins, 1)), np.int64)
    kernel = product_of_cells(system.dimension, system.starts, device.parts, device.mins)
    kernel[-(-results // sizes.threads), sizes.threads](
        device_of(counts), *matrices, device_of(of_chunks.value), device_of(of_chunks.ptr),
        device_of(chunk_ptr), device_of(of_segments.owner), device_of(of_segments.value),
        out, least,
    )  # fmt: skip
    return _spread(of_segments, values, out.copy_to_host(), least.copy_to_host()[:, : device.mins])


def _rows_of(first: Ints, last: Ints, relevant: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """List the relevant events of all chunks, and their chunks; windows may share events."""
    lengths = last - first
    owner = np.repeat(np.arange(len(first)), lengths)
    ends = np.cumsum(lengths)
    rows = np.arange(int(lengths.sum())) - np.repeat(ends - lengths - first, lengths)
    some = relevant[rows]
    return rows[some], owner[some]


def _matrices(
    device: DeviceSystem, events: SweptEvents, chunks: tuple[Ints, Ints], cells: Cells, sizes: Sizes
) -> tuple[Any, Any] | None:
    """Compute the matrix of every cell of every chunk; None if doubles ran out of range."""
    system = device.system
    room = device.empty(len(cells.value))
    flags = cuda.to_device(np.zeros(1, np.int32))
    kernel = cell_kernel(system.dimension, system.starts, device.parts, device.mins)
    blocks = -(-len(cells.value) * system.dimension // sizes.threads)
    kernel[blocks, sizes.threads, 0, shared_bytes(system)](
        device.kept, device.gained, device.weighs, device.picks, device.openings,
        device_of(events.codes), device_of(rows_of(events.weights, device.parts - 1, np.float64)),
        device_of(rows_of(events.values, device.mins, np.int64)), device_of(events.ranks[0]),
        events.below[0], *map(device_of, chunks), device_of(cells.owner), device_of(cells.value),
        room.numbers, room.values, flags,
    )  # fmt: skip
    return None if flags.copy_to_host()[0] else (room.numbers, room.values)


def _spread(cells: Cells, values: int, pairs: NDArray[np.float64], least: Ints) -> Swept:
    """Repeat the result of every cell that has a match for the values in it."""
    ends = np.append(cells.value[1:], 0)
    ends[cells.ptr[1:] - 1] = values
    some = np.flatnonzero(pairs[:, 0, 0] != 0)
    repeats = (ends - cells.value)[some]
    rows = np.repeat(some, repeats)
    inside = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    numbers = np.ascontiguousarray(pairs).view(np.complex128)[..., 0]
    return Swept(cells.owner[rows], cells.value[rows] + inside, numbers[rows], least[rows])
