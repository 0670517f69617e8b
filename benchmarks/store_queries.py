"""Synthetic events and random pattern queries, as in section 3.5.3 of Körber's thesis.

Five attributes follow normal distributions around a line that rises from 0 to 1, cut to [0, 1):
with a deviation of 0 the first one is the line itself, the last one is nearly uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

DEVIATIONS = {"a1": 0.0, "a2": 0.001, "a3": 0.01, "a4": 0.1, "a5": 1.0}
WITHIN = 300
CHUNK_ROWS = 4_000_000


def events(count: int, seed: int = 5) -> Iterator[pa.Table]:
    """Yield events one tick apart."""
    random = np.random.default_rng(seed)
    for begin in range(0, count, CHUNK_ROWS):
        number = np.arange(begin, min(begin + CHUNK_ROWS, count))
        line = number / count
        columns: dict[str, Any] = {"ts": number}
        for name, deviation in DEVIATIONS.items():
            values = random.normal(line, deviation)
            while (outside := (values < 0) | (values >= 1)).any():
                values[outside] = random.normal(line[outside], deviation)
            columns[name] = values
        yield pa.table(columns)


class RandomQuery(NamedTuple):
    """The conditions of symbols, and behind which of them any rows may come."""

    attributes: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    loose: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Return the number of symbols."""
        return len(self.ranges)

    def text(self) -> str:
        """Return the query as SQL."""
        names = [f"S{n}" for n in range(self.size)]
        parts = [
            name + (" T*" if loose else "") for name, loose in zip(names, self.loose, strict=True)
        ]
        define = [
            f"{name} AS {attribute} BETWEEN {low!r} AND {high!r}"
            for name, attribute, (low, high) in zip(
                names, self.attributes, self.ranges, strict=True
            )
        ]
        return f"""SELECT * FROM events MATCH_RECOGNIZE (ORDER BY ts
            MEASURES S0.ts AS begins, {names[-1]}.ts AS ends PATTERN ({" ".join(parts)})
            WITHIN {WITHIN} DEFINE {", ".join(define)})"""


def random_query(random: np.random.Generator, size: int, first: str = "a5") -> RandomQuery:
    """Draw a query: ranges of 0 to 10 % of the values, one symbol on another attribute."""
    attributes = ["a5"] * size
    attributes[int(random.integers(size))] = first
    widths = random.random(size) * 0.1
    lows = random.random(size) * (1 - widths)
    ranges = tuple(
        (float(low), float(low + width)) for low, width in zip(lows, widths, strict=True)
    )
    loose = [False] * size
    place = 0
    while place < size - 1:
        place = int(random.integers(place, size - 1)) + 1
        loose[place - 1] = True
    return RandomQuery(tuple(attributes), ranges, tuple(loose))
