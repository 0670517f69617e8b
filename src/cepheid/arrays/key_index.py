"""Distinct values with a hash table that is kept: numbering a value costs O(1), however many known.

Arrow's own look-up builds a table of all known values in every call, which is quick for few values
and would make every batch of a stream with a million keys cost a million.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.kernels.hashing import number_texts, number_words, place_hashes

FIRST_ROOM = 1 << 10
_BITS, _TEXT_BYTES = 64, 16


class WordIndex:
    """Distinct values of a type of 64 bits: whole numbers, doubles, times."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind, self.count = kind, 0
        self._known = np.zeros(FIRST_ROOM, np.int64)
        self._table = _empty_table(FIRST_ROOM)

    def number(self, values: Any) -> NDArray[np.int64]:
        """Return the number of every value of an array without NULL."""
        words = _words(values)
        out = np.empty(len(words), np.int64)
        done = 0
        while True:
            done, self.count = number_words(words, self._table, self._known, self.count, done, out)
            if done == len(words):
                return out
            self._grow()

    def _grow(self) -> None:
        # The old array stays as it is: tables of values that were returned before refer to it.
        before, room = self._known, 2 * len(self._known)
        self._known, self._table = np.zeros(room, np.int64), _empty_table(room)
        numbers = np.empty(self.count, np.int64)
        number_words(before[: self.count], self._table, self._known, 0, 0, numbers)

    def values(self, count: int) -> Any:
        """Return the first distinct values in the order of their numbers."""
        return pa.Array.from_buffers(self.kind, count, [None, _buffer(self._known)])


class TextIndex:
    """Distinct texts or bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind, self.count = kind, 0
        self._hashes = np.zeros(FIRST_ROOM, np.uint64)
        self._ends = np.zeros(FIRST_ROOM + 1, np.int64)
        self._known = np.zeros(_TEXT_BYTES * FIRST_ROOM, np.uint8)
        self._table = _empty_table(FIRST_ROOM)

    def number(self, values: Any) -> NDArray[np.int64]:
        """Return the number of every value of an array without NULL."""
        _, offsets, data = values.buffers()
        place = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]
        place = place.astype(np.int64)
        content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        out = np.empty(len(values), np.int64)
        done = 0
        while True:
            done, self.count = number_texts(
                place, content, self._table, self._hashes, self._ends, self._known, self.count,
                done, out,
            )  # fmt: skip
            if done == len(values):
                return out
            self._grow(int(place[done + 1] - place[done]))

    def _grow(self, length: int) -> None:
        """Make room for more texts, the first of the given length."""
        if self.count == len(self._hashes):
            room = 2 * self.count
            self._hashes = _longer(self._hashes, room)
            self._ends = _longer(self._ends, room + 1)
            self._table = _empty_table(room)
            place_hashes(self._hashes, self.count, self._table)
        needed = int(self._ends[self.count]) + length
        if needed > len(self._known):
            self._known = _longer(self._known, max(2 * len(self._known), needed))

    def values(self, count: int) -> Any:
        """Return the first distinct values in the order of their numbers."""
        large = pa.large_string() if pa.types.is_string(self.kind) else pa.large_binary()
        buffers = [None, _buffer(self._ends), _buffer(self._known)]
        return pa.Array.from_buffers(large, count, buffers).cast(self.kind)


Index = WordIndex | TextIndex


def index_of(known: Any) -> Index | None:
    """Build the index of distinct values, or return None for a type without one."""
    kind = known.type
    index: Index
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        index = TextIndex(kind)
    elif pa.types.is_primitive(kind) and kind.bit_width == _BITS:
        index = WordIndex(kind)
    else:
        return None
    index.number(known)
    return index


def _words(values: Any) -> NDArray[np.int64]:
    """View the values of an array without NULL as words."""
    _, data = values.buffers()
    return np.frombuffer(data, np.int64)[values.offset :][: len(values)]


def _buffer(array: Any) -> pa.Buffer:
    return pa.py_buffer(array)


def _empty_table(room: int) -> NDArray[np.int32]:
    """Create a table that at most half of its places will be taken of."""
    return np.full(2 * room, -1, np.int32)


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
