r"""Find the few texts of a column for which a condition can be true at all.

``LOWER(Image) LIKE '%\\cmd.exe'`` is true only of texts that have ``\cmd.exe`` in them: its
*needle*. One pass over the texts of a column finds those that have a needle, for thousands of
conditions at once; only these are evaluated. A needle is looked for where three of its bytes stand,
those that are rarest among the first texts.
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
from cepheid.kernels.grams import (
    AT_BEGIN,
    AT_END,
    SIZE,
    WHOLE,
    WIDTH,
    count_grams,
    find_needles,
    slots_of,
)

SAMPLE = 1 << 14
SAMPLE_BYTES = 1 << 18
"""Texts whose grams are counted to find rare ones, and their bytes."""

LEAST = 256
"""The least size of a table of grams."""

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


def place_like(pattern: str, escape: str) -> int:
    r"""Tell where in a text its needle is to stand, if that is all that a pattern asks for.

    Examples
    --------
    >>> [place_like(one, "") for one in (r"%a\%b%", "a%", "%a", "a", "a_%", "a%b")]
    [0, 1, 2, 4, -1, -1]
    """
    found = None if escape else _PLAIN.fullmatch(pattern)
    if found is None:
        return -1
    before, after = found["before"], found["after"]
    return {(True, True): 0, (False, True): AT_BEGIN, (True, False): AT_END}.get(
        (bool(before), bool(after)), WHOLE
    )


_PLAIN = re.compile(r"(?P<before>%*)(?:[^%_\\]|\\.)+(?P<after>%*)", re.DOTALL)
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
        self._numbers = {needle: number for number, needle in enumerate(self._needles)}
        self._bytes = np.frombuffer(b"".join(self._needles), np.uint8)
        self._ends = np.cumsum([0, *map(len, self._needles)], dtype=np.int64)
        self._grams: NDArray[np.int64] | None = None
        self._following = self._shifts = _NOWHERE
        self._table = np.zeros(0, np.int32)
        self._room = 1024

    def find(self, texts: pa.Array[Any]) -> Found:
        """Find the places of texts that have each needle."""
        data, offsets = _bytes_of(plain_texts(texts))
        if self._grams is None:
            self._grams = self._choose(data, offsets[: SAMPLE + 1])
        while True:
            texts_of, numbers, where = np.empty((3, self._room), np.int64)
            seen = np.full(len(self._grams), -1, np.int64)
            count = int(
                find_needles(
                    data, offsets, self._table, self._grams, self._following, self._bytes,
                    self._ends, self._shifts, seen, texts_of, numbers, where,
                )
            )  # fmt: skip
            if count <= self._room:
                found = (texts_of[:count], numbers[:count], where[:count])
                return Found(self._numbers, *found)
            self._room = count

    def _choose(self, data: NDArray[np.uint8], offsets: Places) -> Places:
        """Choose the rarest gram of each needle, by the first texts."""
        few = int(np.searchsorted(offsets, offsets[0] + SAMPLE_BYTES, "right"))
        counts = np.zeros(SIZE, np.int32)
        count_grams(data, offsets[:few], counts)
        grams, self._shifts = _rarest(self._bytes, self._ends, counts)
        self._table = np.full(max(1 << (4 * len(grams)).bit_length(), LEAST), -1, np.int32)
        self._following = np.full(len(grams), -1, np.int64)
        for number, slot in enumerate((slots_of(grams) & (len(self._table) - 1)).tolist()):
            self._following[number], self._table[slot] = self._table[slot], number
        return grams


class Found:
    """The places of texts by needle, and the needles that some text has, ``hits``."""

    def __init__(
        self, numbers: dict[bytes, int], places: Places, found: Places, where: Places
    ) -> None:
        self._numbers = numbers
        order = np.argsort(found, kind="stable")
        self._places, self._where, found = places[order], where[order], found[order]
        self._begins = np.searchsorted(found, np.arange(len(numbers) + 1)).tolist()
        names = [*numbers]
        self.hits = frozenset(map(names.__getitem__, np.unique(found).tolist()))

    def places_of(self, needles: frozenset[bytes], where: int = 0) -> Places:
        """Return the places of texts that have one of some needles, if asked for somewhere."""
        parts = []
        for needle in needles:
            number = self._numbers[needle]
            begin, end = self._begins[number], self._begins[number + 1]
            if begin < end:
                some = self._places[begin:end]
                parts.append(some[self._where[begin:end] & where != 0] if where else some)
        if not parts:
            return _NOWHERE
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _rarest(needles: NDArray[np.uint8], bounds: Places, counts: Any) -> tuple[Places, Places]:
    """Return the gram of each needle that was counted least, and where it ends in the needle."""
    data = needles.astype(np.int64)
    count = len(data) - WIDTH + 1
    places = range(8 * (WIDTH - 1), -1, -8)
    grams = sum((data[at : at + count] << place for at, place in enumerate(places)), _ZERO)
    begins, ends = bounds[:-1], bounds[1:]
    cost = counts[slots_of(grams)]
    for back in range(1, WIDTH):  # Grams of the end of one needle and the begin of the next.
        cost[ends[:-1] - back] = _NEVER
    least = np.minimum.reduceat(cost, begins)
    owner = np.repeat(np.arange(len(begins)), ends - begins)[:count]
    rare = np.flatnonzero(cost == least[owner])
    _, first = np.unique(owner[rare], return_index=True)
    chosen = rare[first]
    return grams[chosen], chosen - begins + (WIDTH - 1)


_NEVER = np.iinfo(np.int32).max
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
