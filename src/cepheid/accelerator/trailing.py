"""Windows without SLIDE on the device: a tree of matrices, and a walk through it for every end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.kernels.trailing import trailing_kernel
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.linear import FANOUT, DeviceSystem, Matrices, Sizes, default_sizes, rows_of
from cepheid.accelerator.room import events_at_once

CHUNK = 32
"""Events of a chunk: numbers of so few fit doubles that share an exponent."""

SIMULATED_CHUNK = 4
ENDS_MAX = 1 << 22
"""Windows of one launch, whose numbers are on the device."""


class TrailingEvents(NamedTuple):
    """Events by key in time order, and where the events of the key of each begin."""

    codes: NDArray[Any]
    weights: NDArray[Any]
    values: NDArray[np.int64]
    times: NDArray[np.int64]
    first: NDArray[np.int64]


class Trailing(NamedTuple):
    """The windows in which a match ends: their last events, numbers and value keys."""

    ends: NDArray[np.int64]
    numbers: NDArray[np.complex128]
    values: NDArray[np.int64]


def trailing_windows(
    device: DeviceSystem, events: TrailingEvents, within: int, counts: NDArray[np.bool_]
) -> Trailing:
    """Aggregate ``(t - within, t]`` at the time of every event with which a match ends.

    ``counts`` says of each configuration whether matches in it count. No two events of a key have
    the same time.
    """
    sizes, system = default_sizes(), device.system
    chunk = SIMULATED_CHUNK if sizes.threads < 32 else CHUNK
    ending: NDArray[np.bool_] = np.any(system.gained[:, system.starts :], axis=2)[:, counts].any(1)
    ends = np.flatnonzero(ending[events.codes])
    there = (
        device_of(events.codes),
        device_of(rows_of(events.weights, device.parts - 1, np.float64)),
        device_of(rows_of(events.values, device.mins, np.int64)),
    )
    matrices, base = _tree(device, there, len(events.codes), chunk, sizes)
    kernel = trailing_kernel(system.dimension, system.starts, device.parts, device.mins)
    fixed = (
        device.kept, device.gained, device.weighs, device.picks, *there, device_of(counts),
        device_of(events.times), device_of(events.first), within, *matrices, device_of(base),
        chunk, FANOUT,
    )  # fmt: skip
    found: list[tuple[NDArray[Any], ...]] = []
    step = events_at_once(ENDS_MAX)
    for begin in range(0, len(ends), step):
        own = ends[begin : begin + step]
        numbers = cuda.device_array((len(own), device.parts, 2), np.float64)
        values = cuda.device_array((len(own), max(device.mins, 1)), np.int64)
        ended = cuda.device_array(len(own), np.bool_)
        kernel[-(-len(own) // sizes.threads), sizes.threads](
            *fixed, device_of(own), numbers, values, ended
        )
        some = np.asarray(ended.copy_to_host())
        found.append(
            (own[some], numbers.copy_to_host()[some], values.copy_to_host()[some, : device.mins])
        )
    if not found:
        none = np.zeros((0, device.parts), np.complex128)
        return Trailing(ends, none, np.zeros((0, device.mins), np.int64))
    own_ends, pairs, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return Trailing(own_ends, np.ascontiguousarray(pairs).view(np.complex128)[..., 0], values)


def _tree(
    device: DeviceSystem, events: tuple[Any, Any, Any], length: int, chunk: int, sizes: Sizes
) -> tuple[Matrices, NDArray[np.int64]]:
    """Compute the matrices of chunks, of groups of chunks, and so on, and where levels begin."""
    counts = [max(length // chunk, 1)]
    while counts[-1] >= FANOUT:
        counts.append(counts[-1] // FANOUT)
    base = np.cumsum([0, *counts])
    room = device.empty(int(base[-1]))
    ptr = np.minimum(np.arange(counts[0] + 1) * chunk, length)
    flags = cuda.to_device(np.zeros(1, np.int32))
    # A window never needs the chunk that is not full.
    own = _part(room, 0, counts[0])
    device.aggregate(events, device_of(ptr), sizes, flags, wide=False, out=own)
    if flags.copy_to_host()[0]:
        device.aggregate(events, device_of(ptr), sizes, flags, wide=True, out=own)
    for level, count in enumerate(counts[1:]):
        below = _part(room, int(base[level]), counts[level])
        device.multiply_groups(below, _part(room, int(base[level + 1]), count), sizes)
    return room, base[:-1].astype(np.int64)


def _part(room: Matrices, begin: int, count: int) -> Matrices:
    return Matrices(room.numbers[begin : begin + count], room.values[begin : begin + count])
