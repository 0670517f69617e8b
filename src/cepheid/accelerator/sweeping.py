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

from cepheid.accelerator.grouping import grid_of
from cepheid.accelerator.kernels.sweep_cells import cells_of_chunks, clear, split_places
from cepheid.accelerator.kernels.sweep_steps import cell_kernel, product_of_cells
from cepheid.accelerator.kernels.sweeps import sweep_kernel
from cepheid.accelerator.launches import device_of, offsets_of
from cepheid.accelerator.linear import DeviceSystem, default_sizes, rows_of
from cepheid.accelerator.room import events_at_once
from cepheid.accelerator.selecting import rows_on_device
from cepheid.accelerator.stretching import FLAGGED
from cepheid.accelerator.systems import shared_bytes

RESULTS_MAX = 1 << 24
"""Results that are on the device at once."""

CHUNK_EVENTS = 256
"""Events of a chunk: few cells each, and few products for a result."""

PART_BYTES = 1 << 33
"""Bytes of the matrices that are on the device at once, if every event has one."""

FLAGS_MAX = 1 << 30
"""Values of all segments that are on the device at once."""

Ints = NDArray[np.int64]


class SweptEvents(NamedTuple):
    """Events, their codes for what they pass, and their ranks on both scales."""

    codes: Any
    weights: Any
    values: Any
    ranks: tuple[Any, Any]
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
    """Step functions of chunks or segments on the device: the owner of each cell, and its begin."""

    owner: Any
    value: Any


class Chunks(NamedTuple):
    """The chunks of some segments: the first one of each segment, their events and segments."""

    ptr: Ints
    first: Ints
    last: Ints
    segment: Ints

    @staticmethod
    def of(begin: Ints, end: Ints) -> Chunks:
        """Cut segments into chunks."""
        number = -(-(end - begin) // CHUNK_EVENTS)
        ptr = np.concatenate([[0], np.cumsum(number)]).astype(np.int64)
        segment = np.repeat(np.arange(len(begin)), number)
        first = begin[segment] + (np.arange(len(segment)) - ptr[segment]) * CHUNK_EVENTS
        return Chunks(ptr, first, np.minimum(first + CHUNK_EVENTS, end[segment]), segment)


def parts_of(lengths: Ints, events: int, segments: int) -> Iterator[slice]:
    """Cut segments into parts with so many events and segments, but one segment at least.

    Examples
    --------
    >>> [(part.start, part.stop) for part in parts_of(np.array([3, 3, 9, 1, 1, 1]), 8, 2)]
    [(0, 2), (2, 3), (3, 5), (5, 6)]
    """
    ends, first = np.cumsum(lengths), 0
    while first < len(lengths):
        before = int(ends[first] - lengths[first])
        last = int(np.searchsorted(ends, before + events, side="right"))
        last = max(min(last, first + segments), first + 1)
        yield slice(first, last)
        first = last


def sweep_steps(
    device: DeviceSystem, events: SweptEvents, begin: Ints, end: Ints, values: int,
    counts: NDArray[np.bool_], relevant: NDArray[np.bool_],
) -> Iterator[Swept | None]:  # fmt: skip
    """Compute the step functions of segments for all values of one parameter, part by part.

    ``relevant`` are the events that the condition is about. Yields None, and ends, if doubles with
    a shared exponent run out of range.
    """
    system = device.system
    matrix = 16 * device.parts * system.dimension**2 + 8 * device.mins * system.dimension**2
    there = SweptEvents(
        device_of(events.codes), device_of(rows_of(events.weights, device.parts - 1, np.float64)),
        device_of(rows_of(events.values, device.mins, np.int64)),
        (device_of(events.ranks[0]), None), events.below,
    )  # fmt: skip
    own, kept = device_of(relevant.view(np.uint8)), device_of(counts)
    most = events_at_once(PART_BYTES // matrix)
    for part in parts_of(end - begin, most, max(FLAGS_MAX // values, 1)):
        chunks = Chunks.of(begin[part], end[part])
        found = _steps_of(device, there, chunks, values, kept, own)
        if found is None:
            yield None
            return
        yield found._replace(segment=found.segment + part.start)


def _steps_of(
    device: DeviceSystem, events: SweptEvents, chunks: Chunks, values: int, counts: Any, own: Any
) -> Swept | None:
    """Compute the step functions of some segments; None if doubles ran out of range."""
    first, last, segment = map(device_of, chunks[1:])
    rank, number = events.ranks[0], len(chunks.first)
    count, write = cells_of_chunks(CHUNK_EVENTS)
    flags = cuda.device_array((1, (len(chunks.ptr) - 1) * values), np.uint8)
    grid = grid_of(flags.shape[1])
    clear[grid](flags)
    sizes = cuda.device_array(number, np.int32)
    count[number, CHUNK_EVENTS](first, last, segment, rank, own, values, flags, sizes)
    ptr, total = offsets_of(sizes)
    cells = Cells(cuda.device_array(total, np.int64), cuda.device_array(total, np.int64))
    write[number, CHUNK_EVENTS](first, last, rank, own, values, ptr, *cells)
    matrices = _matrices(device, events, (first, last), cells)
    if matrices is None:
        return None
    places = rows_on_device((flags, flags, flags), FLAGGED, flags.shape[1])
    results = len(places)
    steps = Cells(cuda.device_array(results, np.int64), cuda.device_array(results, np.int64))
    split_places[grid_of(results)](places, values, *steps)
    system, threads = device.system, default_sizes().threads
    out = cuda.device_array((results, device.parts, 2), np.float64)
    least = cuda.device_array((results, max(device.mins, 1)), np.int64)
    kernel = product_of_cells(system.dimension, system.starts, device.parts, device.mins)
    kernel[-(-results // threads), threads](
        counts, *matrices, cells.value, ptr, device_of(chunks.ptr), *steps, out, least
    )
    return _spread(
        steps.owner.copy_to_host(), steps.value.copy_to_host(), values, out.copy_to_host(),
        least.copy_to_host()[:, : device.mins],
    )  # fmt: skip


def _matrices(
    device: DeviceSystem, events: SweptEvents, chunks: tuple[Any, Any], cells: Cells
) -> tuple[Any, Any] | None:
    """Compute the matrix of every cell of every chunk; None if doubles ran out of range."""
    system, threads = device.system, default_sizes().threads
    room = device.empty(len(cells.value))
    flags = cuda.to_device(np.zeros(1, np.int32))
    kernel = cell_kernel(system.dimension, system.starts, device.parts, device.mins)
    blocks = -(-len(cells.value) * system.dimension // threads)
    kernel[blocks, threads, 0, shared_bytes(system)](
        device.kept, device.gained, device.weighs, device.picks, device.openings,
        events.codes, events.weights, events.values, events.ranks[0], events.below[0], *chunks,
        *cells, room.numbers, room.values, flags,
    )  # fmt: skip
    return None if flags.copy_to_host()[0] else (room.numbers, room.values)


def _spread(
    owner: Ints, value: Ints, values: int, pairs: NDArray[np.float64], least: Ints
) -> Swept:
    """Repeat the result of every cell that has a match for the values in it."""
    # The first cell of every segment begins at the first value.
    ends = np.append(value[1:], 0)
    ends[ends == 0] = values
    some = np.flatnonzero(pairs[:, 0, 0] != 0)
    repeats = (ends - value)[some]
    rows = np.repeat(some, repeats)
    inside = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    numbers = np.ascontiguousarray(pairs).view(np.complex128)[..., 0]
    return Swept(owner[rows], value[rows] + inside, numbers[rows], least[rows])
