"""Summarise events on the device: arrays in, one matrix for every segment of the stream out.

A segment is a run of consecutive events, such as those of one key and pane. It is cut into chunks;
each becomes a matrix, and neighbours are multiplied, a few at a time, until one is left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.chunks import NO_VALUE, chunk_kernel, wide_kernel
from cepheid.accelerator.kernels.count import SYMBOLS, count_kernel
from cepheid.accelerator.kernels.products import product_kernel
from cepheid.accelerator.lanes import Lane, is_there
from cepheid.accelerator.systems import System, shared_bytes

FANOUT = 16
"""Neighbours that one thread multiplies."""

TABLE_DIMENSION_MAX = 4
"""Matrices of symbols fit into shared memory up to this size."""


COLUMNS_MAX = 3
"""Up to this size a thread holds all columns of a matrix in registers; beyond it, one."""


ALIGNED = 32


class Sizes(NamedTuple):
    """The sizes of chunks and blocks; small for the simulator, which runs Python threads."""

    threads: int
    chunks: int
    chunk_min: int


GPU_SIZES = Sizes(128, 132 * 512, 64)
SIMULATOR_SIZES = Sizes(8, 5, 8)


class Matrices(NamedTuple):
    """Matrices on the device: wide numbers, and value keys."""

    numbers: Any
    values: Any


def default_sizes() -> Sizes:
    """Choose the sizes for the available device."""
    return SIMULATOR_SIZES if find_device()[0] is Found.SIMULATOR else GPU_SIZES


class DeviceSystem:
    """A system whose tables are on the device, or several of one shape over the same events."""

    def __init__(self, system: System, *others: System) -> None:
        self.system = system
        systems = (system, *others)
        self.systems = len(systems)
        self.parts, self.mins = len(system.weighs), len(system.values)
        self._rooms: dict[int, Matrices] = {}
        self._lengths: dict[int, Any] = {}
        self.kept = _stack([one.kept for one in systems])
        self.gained = _stack([one.gained for one in systems])
        # The kernels need arrays of at least one row.
        self.weighs = _stack([one.weighs for one in systems])
        nothing = np.zeros((1, system.dimension))
        self.picks = _stack([one.values if self.mins else nothing for one in systems])
        self.openings = cuda.to_device(np.stack([one.opening for one in systems]))
        self.opening = cuda.to_device(system.opening)
        codes = len(system.kept)
        self.per_symbol = 4 if codes <= 4 else 2 if codes <= 16 else 1
        counts = self.parts == 1 and not self.mins and not others
        self.counts = counts and system.steady and system.dimension <= TABLE_DIMENSION_MAX
        if self.counts:
            self.table = cuda.to_device(_table(system, self.per_symbol))
            growth = np.log2(max((system.kept + system.gained).sum(2).max(), 2))
            self.period = max(int(480 / growth) // 8, 1)

    def empty(self, rows: int, stream: Any = 0) -> Matrices:
        """Allocate a buffer for matrices."""
        d = self.system.dimension
        return Matrices(
            cuda.device_array((rows, d, self.parts, d, 2), np.float64, stream=stream),
            cuda.device_array((rows, d, max(self.mins, 1), d), np.int64, stream=stream),
        )

    def chunks_of(self, words: int, sizes: Sizes) -> int:
        """Count the matrices that ``count`` computes from a number of words."""
        return -(-words // _words_of_chunk(words, sizes))

    def count(
        self, words: Any, sizes: Sizes, flags: Any, stream: Any = 0, out: Matrices | None = None
    ) -> Matrices:
        """Summarise one stream of codes, eight in a word, as one matrix per chunk."""
        chunk, chunks = _words_of_chunk(len(words), sizes), self.chunks_of(len(words), sizes)
        if out is None or len(out.numbers) != chunks:
            out = self.empty(chunks, stream)
        system = self.system
        kernel = count_kernel(system.dimension, system.starts, self.per_symbol)
        kernel[-(-chunks // sizes.threads), sizes.threads, stream](
            self.table, words, chunk, self.period, self.opening, system.steady, out.numbers, flags
        )
        return out

    def aggregate(
        self, events: tuple[Any, Any, Any], ptr: Any, sizes: Sizes, flags: Any, *, wide: bool,
        stream: Any = 0, out: Matrices | None = None,
    ) -> Matrices:  # fmt: skip
        """Summarise chunks of events (codes, weights, values), one matrix per chunk and system."""
        out = self.empty(self.systems * (len(ptr) - 1), stream) if out is None else out
        system, d = self.system, self.system.dimension
        columns = d if d <= COLUMNS_MAX and not wide else 1
        threads = (len(ptr) - 1) * (d // columns)
        shape = (d, system.starts, self.parts, self.mins)
        kernel = wide_kernel(*shape) if wide else chunk_kernel(*shape, columns)
        shared = 0 if wide else shared_bytes(system)
        grid = (-(-threads // sizes.threads), self.systems)
        kernel[grid, sizes.threads, stream, shared](
            self.kept, self.gained, self.weighs, self.picks, self.openings, system.steady,
            *events, ptr, *out, flags,
        )  # fmt: skip
        return out

    def multiply(
        self, matrices: Matrices, counts: NDArray[np.int64], sizes: Sizes, stream: Any = 0
    ) -> Matrices:
        """Multiply the matrices of every segment until one is left.

        The next call overwrites the result.
        """
        d = self.system.dimension
        kernel = product_kernel(d, self.parts, self.mins)
        while len(counts) and counts.max() > 1:
            after = -(-counts // FANOUT)
            rows = int(after.sum())
            # One segment needs no pointers, and streams reuse its buffers.
            one = len(counts) == 1
            if one:
                ptr, out = self._length(int(counts[0])), self._room(rows)
            else:
                ptr, out = cuda.to_device(_grouped(counts, after), stream), self.empty(rows, stream)
            blocks = -(-rows * d // sizes.threads)
            kernel[blocks, sizes.threads, stream](*matrices, ptr, FANOUT, *out)
            matrices, counts = out, after
        return matrices

    def multiply_groups(self, matrices: Matrices, out: Matrices, sizes: Sizes) -> None:
        """Multiply whole groups of FANOUT neighbours; what is left over has no product."""
        d, rows = self.system.dimension, len(out.numbers)
        kernel = product_kernel(d, self.parts, self.mins)
        ptr = self._length(rows * FANOUT)
        kernel[-(-rows * d // sizes.threads), sizes.threads](*matrices, ptr, FANOUT, *out)

    def _length(self, count: int) -> Any:
        if count not in self._lengths:
            self._lengths[count] = cuda.to_device(np.array([count], np.int64))
        return self._lengths[count]

    def _room(self, rows: int) -> Matrices:
        if rows not in self._rooms:
            self._rooms[rows] = self.empty(rows)
        return self._rooms[rows]


def summarise(
    device: DeviceSystem, codes: NDArray[Any], weights: NDArray[Any], values: NDArray[np.int64],
    bounds: NDArray[np.int64], sizes: Sizes | None = None, *, wide: bool = False,
    lane: Lane | None = None,
) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:  # fmt: skip
    """Compute the matrix of every segment: wide numbers and value keys.

    Parameters
    ----------
    codes, weights, values
        The events in order, those of a segment side by side; rows of weights and of values. Arrays
        that are on the device stay there; codes are then padded to whole words.
    bounds
        (segments + 1,) the start offsets of the segments.
    wide
        Whether all numbers have their own exponent from the start; otherwise only if they need it.
    lane
        The stream and the memory to work with.

    Returns
    -------
    (segment, row, part, column) numbers and (segment, row, extreme, column) value keys; of several
    systems, the segments of the first come first
    """
    sizes, lane = sizes or default_sizes(), lane or Lane()
    stream = lane.stream
    flags = lane.put("flags", np.zeros(1, np.int32))
    one = len(bounds) == 2 and bounds[0] == 0
    if device.counts and one and not wide and codes.dtype == np.uint8:
        words = lane.put("codes", _padded(device, codes)).view(np.uint64)
        matrices = device.count(words, sizes, flags, stream)
        counts = np.array([matrices.numbers.shape[0]])
    else:
        # Threads that read weights wait for memory, so there are more of them.
        ptr, counts = cut(bounds, sizes._replace(chunks=8 * sizes.chunks))
        events = (
            lane.put("codes", codes),
            lane.put("weights", rows_of(weights, device.parts - 1, np.float64)),
            lane.put("values", rows_of(values, device.mins, np.int64)),
        )
        matrices = device.aggregate(
            events, lane.put("ptr", ptr), sizes, flags, wide=wide, stream=stream
        )
        counts = np.tile(counts, device.systems)
    matrices = device.multiply(matrices, counts, sizes, stream)
    if not wide and lane.get(flags)[0]:
        return summarise(device, codes, weights, values, bounds, sizes, wide=True, lane=lane)
    numbers = lane.get(matrices.numbers)
    least = lane.get(matrices.values) if device.mins else np.zeros((0,), np.int64)
    d = device.system.dimension
    least = least if device.mins else np.full((len(numbers), d, 0, d), NO_VALUE)
    return numbers.view(np.complex128)[..., 0], least


def cut(bounds: NDArray[np.int64], sizes: Sizes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compute the start offsets of the chunks of all segments, and the number of chunks of each."""
    lengths = np.diff(bounds)
    chunk = max(-(-int(lengths.sum()) // sizes.chunks), sizes.chunk_min)
    if chunk > ALIGNED:
        # Neighbouring events of a chunk are then in one piece of memory that is read at once.
        chunk = -(-chunk // ALIGNED) * ALIGNED
    counts = -(-lengths // chunk)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.repeat(bounds[:-1], counts) + (np.arange(len(first)) - first) * chunk
    return np.append(begin, bounds[-1]), counts


def _stack(arrays: list[NDArray[Any]]) -> Any:
    return cuda.to_device(np.stack(arrays).astype(np.float64))


def _words_of_chunk(words: int, sizes: Sizes) -> int:
    return max(-(-words // sizes.chunks), sizes.chunk_min // 8)


def _grouped(counts: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the start offsets of groups of neighbours; no group crosses segments."""
    starts = np.cumsum(counts) - counts
    first = np.repeat(np.cumsum(after) - after, after)
    begin = np.repeat(starts, after) + (np.arange(len(first)) - first) * FANOUT
    return np.append(begin, counts.sum())


def _table(system: System, per_symbol: int) -> NDArray[np.float64]:
    """Compute the product of the matrices of every symbol; the first event is the highest digit."""
    one = system.kept + system.gained
    base = {1: SYMBOLS, 2: 16, 4: 4}[per_symbol]
    digits = np.zeros((base, *one.shape[1:]))
    digits[: len(one)] = one
    table = digits
    for _ in range(per_symbol - 1):
        table = np.einsum("bij,ajk->abik", digits, table).reshape(-1, *one.shape[1:])
    return table.reshape(-1)


def _padded(device: DeviceSystem, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if is_there(codes):
        return codes
    padded = np.full(-(-len(codes) // 8) * 8, device.system.identity, np.uint8)
    padded[: len(codes)] = codes
    return padded


def rows_of(rows: NDArray[Any], count: int, dtype: Any) -> NDArray[Any]:
    """Take the first rows, one at least, because kernels need one."""
    if is_there(rows):
        return rows
    rows = rows[: max(count, 1)]
    return np.ascontiguousarray(rows if len(rows) else np.zeros((1, 1)), dtype)
