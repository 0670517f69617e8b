"""Copy columns to the device as fast as the link allows: threads fill pinned pieces side by side.

A device copies directly from pinned memory only, and one thread fills it slower than the link takes
it. So every thread has a CUDA stream and two pinned pieces: while one is on its way, it fills the
other. Pinned memory is expensive to get, so it stays with the process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.failures import broken_device
from cepheid.accelerator.lanes import allocate_pinned, turn

PIECE_BYTES = 8 << 20
THREADS_MAX = 12
"""More threads than these do not fill pinned memory any faster."""

_NON_BLOCKING, _NO_TIMING = 1, 2
"""Flags of the driver: a stream beside the default one, and an event without a time."""

_BINDINGS = importlib.util.find_spec("cuda") is not None and (
    importlib.util.find_spec("cuda.bindings") is not None
)

ENCODED_ROWS = 1 << 20
"""Texts for which one thread builds a dictionary."""

Chunks = Sequence[NDArray[Any]]
"""The chunks of one column, of one type."""


class Carrier:
    """The CUDA stream of one thread, and its pinned pieces; numba, or its simulator, copies."""

    def __init__(self, piece_bytes: int) -> None:
        self._stream: Any = cuda.stream()
        self._pieces = [allocate_pinned(piece_bytes, np.uint8) for _ in range(2)]
        self._left: list[Any] = [cuda.event() for _ in self._pieces]
        self._turn = 0

    def carry(self, source: NDArray[Any], target: Any, begin: int) -> None:
        """Copy a part of a column to its place on the device."""
        piece, left = self._pieces[self._turn], self._left[self._turn]
        self._turn = 1 - self._turn
        left.synchronize()
        room = piece[: source.nbytes].view(source.dtype)
        np.copyto(room, source)
        target[begin : begin + len(source)].copy_to_device(room, stream=self._stream)
        left.record(self._stream)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        self._stream.synchronize()


class DriverCarrier:
    """A carrier that calls the driver itself; numba takes a third of a millisecond for a copy."""

    def __init__(self, piece_bytes: int) -> None:
        cuda.current_context()
        self._driver: Any = importlib.import_module("cuda.bindings.driver")
        self._stream = self._call("cuStreamCreate", _NON_BLOCKING)
        self._pieces = [allocate_pinned(piece_bytes, np.uint8) for _ in range(2)]
        self._left = [self._call("cuEventCreate", _NO_TIMING) for _ in self._pieces]
        self._turn = 0

    def carry(self, source: NDArray[Any], target: Any, begin: int) -> None:
        """Copy a part of a column to its place on the device."""
        piece, left = self._pieces[self._turn], self._left[self._turn]
        self._turn = 1 - self._turn
        self._call("cuEventSynchronize", left)
        np.copyto(piece[: source.nbytes].view(source.dtype), source)
        place = target.__cuda_array_interface__["data"][0] + begin * source.itemsize
        self._call("cuMemcpyHtoDAsync", place, piece.ctypes.data, source.nbytes, self._stream)
        self._call("cuEventRecord", left, self._stream)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        self._call("cuStreamSynchronize", self._stream)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; the second of its results is the value."""
        code, *found = getattr(self._driver, name)(*arguments)
        if int(code):
            why = f"{name} failed ({code})"
            raise broken_device(why)
        return found[0] if found else None


class Uploader:
    """Copies columns with several threads."""

    def __init__(self, threads: int, piece_bytes: int = PIECE_BYTES) -> None:
        self._own = threading.local()
        self._carriers: list[Carrier | DriverCarrier] = []
        self._piece_bytes = piece_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cepheid-upload")

    def put(self, columns: Sequence[Chunks], targets: Sequence[Any]) -> None:
        """Copy columns to device arrays of their lengths; return when all have arrived."""
        work = []
        for chunks, target in zip(columns, targets, strict=True):
            begin = 0
            for chunk in chunks:
                step = max(self._piece_bytes // chunk.itemsize, 1)
                work += [
                    (chunk[first : first + step], target, begin + first)
                    for first in range(0, len(chunk), step)
                ]
                begin += len(chunk)
        for done in [self._pool.submit(self._carry, *one) for one in work]:
            done.result()
        for carrier in self._carriers:
            carrier.finish()

    def _carry(self, source: NDArray[Any], target: Any, begin: int) -> None:
        with turn():
            if not hasattr(self._own, "carrier"):
                kind = DriverCarrier if find_device()[0] is Found.GPU and _BINDINGS else Carrier
                self._own.carrier = kind(self._piece_bytes)
                self._carriers.append(self._own.carrier)
            self._own.carrier.carry(source, target, begin)


@functools.cache
def uploader() -> Uploader:
    """Return the uploader of this process, with as many threads as Arrow uses."""
    return Uploader(min(pa.cpu_count(), THREADS_MAX))


class Uploaded(NamedTuple):
    """Columns of eight bytes on the device, (column, event); both are the same memory."""

    whole: Any
    doubles: Any

    def for_conditions(self, constants: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
        """Build the columns that conditions read, see ``conditions.Columns``; none has a mask."""
        return (*self, cuda.to_device(np.zeros((1, 1), np.uint8)), *map(cuda.to_device, constants))


def upload_columns(
    columns: Sequence[Chunks], length: int, others: Sequence[tuple[Chunks, Any]] = ()
) -> Uploaded:
    """Copy columns of whole numbers, doubles or times to the device; kernels need one at least.

    ``others`` are copied at the same time, each to the array beside it.
    """
    whole = cuda.device_array((max(len(columns), 1), max(length, 1)), np.int64)
    if length:
        sources = [[chunk.view(np.int64) for chunk in chunks] for chunks in columns]
        targets = [whole[row] for row in range(len(columns))]
        uploader().put(
            [*sources, *(chunks for chunks, _ in others)], [*targets, *(room for _, room in others)]
        )
    return Uploaded(whole, whole.view(np.float64))


def plain_chunks(column: Any, *, times: bool = False) -> Chunks | None:
    """View the chunks of a column of whole numbers or doubles; None for any other column."""
    kind = column.type
    ticks = pa.types.is_timestamp(kind) and kind.unit == "us"
    if column.null_count or not (kind in (pa.int64(), pa.float64()) or (times and ticks)):
        return None
    chunks = [chunk.view(pa.int64()) if ticks else chunk for chunk in column.chunks]
    return [chunk.to_numpy() for chunk in chunks if len(chunk)]


def encoded_chunks(column: Any) -> list[Any] | None:
    """Encode the chunks of a column of texts with dictionaries, side by side; None with NULL."""
    if column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        return None if any(chunk.indices.null_count for chunk in chunks) else chunks
    if not pa.types.is_string(column.type):
        return None
    parts = [
        chunk.slice(first, ENCODED_ROWS)
        for chunk in column.chunks
        for first in range(0, len(chunk), ENCODED_ROWS)
    ]
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return list(pool.map(lambda part: part.dictionary_encode(), parts))
