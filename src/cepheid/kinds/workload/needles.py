r"""Find the few texts of a column for which a condition can be true at all.

``LOWER(Image) LIKE '%\\cmd.exe'`` is true only of texts that have ``\cmd.exe`` in them: its
*needle*. One pass over the texts of a column finds those that have four bytes of a needle, for
thousands of conditions at once; only these are evaluated. The four bytes are those of the needle
that are rarest among the first texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.expressions.text_functions import fixed_parts
from cepheid.expressions.vectors import plain_texts
from cepheid.kernels.grams import SIZE, WIDTH, count_grams, find_grams, slots_of

SAMPLE = 1 << 14
"""Texts whose grams are counted to find rare ones."""

Places = NDArray[np.int64]


def needles_like(pattern: str, escape: str) -> frozenset[bytes]:
    r"""Return the longest text between the wildcards of a pattern, if it can be looked for.

    Examples
    --------
    >>> needles_like(r"%\\cmd.exe%x", "")
    frozenset({b'\\cmd.exe'})
    """
    if escape or not pattern:
        return needles_in([max(fixed_parts(pattern, escape), key=len)])
    parts = _FIXED.findall(pattern)
    if "\\" in pattern:
        parts = [_ESCAPED.sub(r"\1", part) for part in parts]
    return needles_in([max(parts, key=len, default="")])


_FIXED = re.compile(r"(?:[^%_\\]|\\(?:.|\Z))+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def needles_in(texts: Sequence[object]) -> frozenset[bytes]:
    """Return the texts that values are to be equal to, if all can be looked for."""
    found = frozenset([text.encode() for text in texts if isinstance(text, str)])
    asked = len({*texts})
    if len(found) < asked or min(map(len, found), default=0) < WIDTH:
        return frozenset()
    return found


class Needles:
    """The needles of many conditions on one column."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = sorted(set(needles))
        self._grams: NDArray[np.int64] | None = None
        self._following = np.zeros(0, np.int64)
        self._table = _NOWHERE
        self._numbers: dict[bytes, int] = {}
        self._room = 4096

    def find(self, texts: pa.Array[Any]) -> Found:
        """Find the places of texts that have a gram of each needle."""
        data, offsets = _bytes_of(plain_texts(texts))
        if self._grams is None:
            self._choose(data, offsets[: SAMPLE + 1])
        assert self._grams is not None, "grams were chosen"
        while True:
            places, numbers = np.empty(self._room, np.int64), np.empty(self._room, np.int64)
            seen = np.full(len(self._grams), -1, np.int64)
            count = int(
                find_grams(
                    data, offsets, self._table, self._grams, self._following, seen, places, numbers
                )
            )
            if count <= self._room:
                return Found(self._numbers, places[:count], numbers[:count], len(self._grams))
            self._room = count

    def _choose(self, data: NDArray[np.uint8], offsets: Places) -> None:
        """Choose the rarest gram of each needle, by the first texts."""
        self._table = np.full(SIZE, -1, np.int64)
        counts = np.zeros(SIZE, np.int64)
        count_grams(data, offsets, counts)
        numbers: dict[int, int] = {}
        for needle, rarest in zip(self._needles, _rarest(self._needles, counts), strict=True):
            self._numbers[needle] = numbers.setdefault(rarest, len(numbers))
        self._grams = np.array([*numbers], np.int64)
        self._following = np.full(len(numbers), -1, np.int64)
        for number, slot in enumerate(slots_of(self._grams).tolist()):
            self._following[number], self._table[slot] = self._table[slot], number


class Found:
    """The places of texts by needle."""

    def __init__(
        self, numbers: dict[bytes, int], places: Places, grams: Places, count: int
    ) -> None:
        self._numbers = numbers
        order = np.argsort(grams, kind="stable")
        self._places = places[order]
        self._begins = np.searchsorted(grams[order], np.arange(count + 1)).tolist()

    def places_of(self, needles: frozenset[bytes]) -> Places:
        """Return the places of texts that may have one of some needles, in order."""
        parts = []
        for needle in needles:
            number = self._numbers[needle]
            begin, end = self._begins[number], self._begins[number + 1]
            if begin < end:
                parts.append(self._places[begin:end])
        if not parts:
            return _NOWHERE
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _rarest(needles: list[bytes], counts: NDArray[np.int64]) -> list[int]:
    """Return the gram of each needle that was counted least, the first of several."""
    if not needles:
        return []
    data = np.frombuffer(b"".join(needles), np.uint8).astype(np.int64)
    count = len(data) - WIDTH + 1
    shifts = range(8 * (WIDTH - 1), -1, -8)
    grams = sum((data[at : at + count] << shift for at, shift in enumerate(shifts)), _ZERO)
    lengths = np.array([len(needle) for needle in needles])
    ends = np.cumsum(lengths)
    cost = counts[slots_of(grams)]
    for back in range(1, WIDTH):  # Grams of the end of one needle and the begin of the next.
        cost[ends[:-1] - back] = _NEVER
    begins = ends - lengths
    least = np.minimum.reduceat(cost, begins)
    owner = np.repeat(np.arange(len(needles)), lengths)[:count]
    places = np.flatnonzero(cost == least[owner])
    _, first = np.unique(owner[places], return_index=True)
    rarest: list[int] = grams[places[first]].tolist()
    return rarest


_NEVER = np.iinfo(np.int64).max
_ZERO = np.zeros(1, np.int64)
_NOWHERE = np.zeros(0, np.int64)


def _bytes_of(texts: pa.Array[Any]) -> tuple[NDArray[np.uint8], Places]:
    """View the bytes of texts, and copy where each begins."""
    wide = pa.types.is_large_string(texts.type)
    buffers: list[Any] = texts.buffers()
    _, starts, data = buffers
    offsets = np.frombuffer(starts, np.int64 if wide else np.int32)
    kept = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    view = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return view, kept
