"""Chunks of events with the system compiled into the kernel: no tables, no zeros, all in registers.

The numbers of a matrix are a tuple, which needs no indexing at run time. For every code and entry a
small function adds up the contributions to the entry; functions are joined until one pushes the
whole tuple through one event. Entries that are always zero are left out: matches do not return to a
start, and starts have no sums. Compiling this takes seconds, so it pays off where data stays on the
device.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from cepheid.accelerator.kernels.inlining import inlined
from cepheid.accelerator.kernels.wide import LIMIT

NO_VALUE = np.iinfo(np.int64).max

Cells = tuple[tuple[int, ...], ...]


class Spec(NamedTuple):
    """A system as tuples.

    Attributes
    ----------
    kept, gained
        For every code and row the columns whose numbers stay or move there, and those whose matches
        are extended by the event.
    weighs, picks
        For every row the parts whose weights, and the extremes whose values count there.
    """

    dimension: int
    starts: int
    parts: int
    mins: int
    kept: tuple[Cells, ...]
    gained: tuple[Cells, ...]
    weighs: Cells
    picks: Cells


class Places:
    """The positions of the entries of a matrix in the tuples."""

    def __init__(self, spec: Spec) -> None:
        starts, d = range(spec.starts), range(spec.dimension)
        inner = range(spec.starts, spec.dimension)
        self.numbers = [(0, q, c) for q in starts for c in starts]
        self.numbers += [(a, q, c) for a in range(spec.parts) for q in inner for c in d]
        self.values = [(a, q, c) for a in range(spec.mins) for q in inner for c in d]
        self._number = {cell: n for n, cell in enumerate(self.numbers)}
        self._value = {cell: n for n, cell in enumerate(self.values)}

    def of(self, part: int, rows: tuple[int, ...], column: int) -> tuple[int, ...]:
        """Assign positions to the entries of some rows; entries that are always zero have none."""
        cells = [(part, r, column) for r in rows]
        return tuple(self._number[cell] for cell in cells if cell in self._number)

    def values_of(self, extreme: int, rows: tuple[int, ...], column: int) -> tuple[int, ...]:
        """Collect the positions of value keys, each once."""
        cells = [(extreme, r, column) for r in dict.fromkeys(rows)]
        return tuple(self._value[cell] for cell in cells if cell in self._value)


@functools.cache
def total_of(places: tuple[int, ...]) -> Any:
    """Build a function that adds up some numbers of the tuple."""
    if not places:
        return inlined(lambda s, v, w, x: 0.0)
    last = places[-1]
    if len(places) == 1:
        return inlined(lambda s, v, w, x: s[last])
    rest = total_of(places[:-1])
    return inlined(lambda s, v, w, x: rest(s, v, w, x) + s[last])


@functools.cache
def weighted(places: tuple[int, ...], taken: tuple[int, ...], row: int) -> Any:
    """Build a function that adds up numbers, and a weight for each extended match."""
    rest, count = total_of(places), total_of(taken)

    @inlined
    def total(s, v, w, x):
        inc = count(s, v, w, x)
        # A weight that does not count here may be infinite or NaN.
        return rest(s, v, w, x) + (w[row] * inc if inc != 0.0 else 0.0)

    return total


@functools.cache
def least_of(places: tuple[int, ...], taken: tuple[int, ...], row: int) -> Any:
    """Build a function for the minimum of some value keys, and of the event's if it counts.

    If the row is negative, the event's value does not count.
    """
    if row >= 0:
        rest, count = least_of(places, (), -1), total_of(taken)

        @inlined
        def with_event(s, v, w, x):
            key = x[row] if count(s, v, w, x) != 0.0 else NO_VALUE
            return min(rest(s, v, w, x), key)

        return with_event
    if not places:
        return inlined(lambda s, v, w, x: NO_VALUE)
    last = places[-1]
    if len(places) == 1:
        return inlined(lambda s, v, w, x: v[last])
    others = least_of(places[:-1], (), -1)
    return inlined(lambda s, v, w, x: min(others(s, v, w, x), v[last]))


def joined(functions: list[Any]) -> Any:
    """Build a function of (s, v, w, x) that returns the results of all functions as a tuple."""
    if len(functions) == 1:
        (one,) = functions
        return inlined(lambda s, v, w, x: (one(s, v, w, x),))
    if len(functions) == 2:
        one, two = functions
        return inlined(lambda s, v, w, x: (one(s, v, w, x), two(s, v, w, x)))
    half = len(functions) // 2
    before, after = joined(functions[:half]), joined(functions[half:])
    return inlined(lambda s, v, w, x: before(s, v, w, x) + after(s, v, w, x))


def taking(spec: Spec, code: int) -> tuple[Any, Any]:
    """Build the functions that compute numbers and value keys after an event of a code."""
    places, kept, gained = Places(spec), spec.kept[code], spec.gained[code]
    numbers = []
    for a, q, c in places.numbers:
        both, taken = places.of(a, kept[q] + gained[q], c), places.of(0, gained[q], c)
        counts = a > 0 and a in spec.weighs[q] and taken
        numbers.append(weighted(both, taken, a - 1) if counts else total_of(both))
    values = []
    for a, q, c in places.values:
        taken = places.of(0, gained[q], c)
        row = a if a in spec.picks[q] and taken else -1
        values.append(least_of(places.values_of(a, kept[q] + gained[q], c), taken, row))
    keys = joined(values) if values else inlined(lambda s, v, w, x: v)
    return joined(numbers), keys


def stepping(spec: Spec) -> Any:
    """Build a function that pushes both tuples through an event."""
    identity = tuple((q,) for q in range(spec.dimension))
    step = inlined(lambda code, s, v, w, x: (s, v))
    for code in range(len(spec.kept)):
        if spec.kept[code] != identity or any(spec.gained[code]):
            step = _either(code, *taking(spec, code), step)
    return step


def _either(code: int, numbers: Any, values: Any, otherwise: Any) -> Any:
    @inlined
    def step(given, s, v, w, x):
        if given == code:
            return numbers(s, v, w, x), values(s, v, w, x)
        return otherwise(given, s, v, w, x)

    return step


def reading(rows: int, filler: Any) -> Any:
    """Build a function that reads the values of an event from all rows of an array, as a tuple."""
    if rows == 0:
        return inlined(lambda array, i: (filler,))
    last = rows - 1
    if rows == 1:
        return inlined(lambda array, i: (array[last, i],))
    before = reading(last, filler)
    return inlined(lambda array, i: before(array, i) + (array[last, i],))  # noqa: RUF005


def filling(cells: list[tuple[int, int, int]]) -> Any:
    """Build a function that reads entries of a matrix (part, row, column) as a tuple."""
    if len(cells) == 1:
        ((a, q, c),) = cells
        return inlined(lambda m: (m[a, q, c],))
    half = len(cells) // 2
    before, after = filling(cells[:half]), filling(cells[half:])
    return inlined(lambda m: before(m) + after(m))


def spilling(cells: list[tuple[int, int, int]]) -> Any:
    """Build a function that writes a tuple into a matrix (part, row, column)."""
    write = None
    for n, (a, q, c) in enumerate(cells):
        write = _also(write, n, a, q, c)
    return write if write is not None else inlined(lambda m, s: None)


def _also(write: Any, n: int, a: int, q: int, c: int) -> Any:
    if write is None:

        @inlined
        def first(m, s):
            m[a, q, c] = s[n]

        return first

    @inlined
    def more(m, s):
        write(m, s)
        m[a, q, c] = s[n]

    return more


def small_of(length: int) -> Any:
    """Build a function that checks whether all numbers of a tuple are below the limit."""
    last = length - 1
    if length == 1:
        return inlined(lambda s: abs(s[last]) < LIMIT)
    before = small_of(last)
    return inlined(lambda s: before(s) and abs(s[last]) < LIMIT)


def spilling_values(cells: list[tuple[int, int, int]], starts: int, mins: int) -> Any:
    """Build a function that writes a tuple of value keys into a row of matrices."""

    @inlined
    def write(values, chunk, v):
        for a in range(mins):
            for q in range(starts):
                for c in range(values.shape[3]):
                    values[chunk, q, a, c] = NO_VALUE

    for n, (a, q, c) in enumerate(cells):
        write = _also_value(write, n, a, q, c)
    return write


def _also_value(write: Any, n: int, a: int, q: int, c: int) -> Any:
    @inlined
    def more(values, chunk, v):
        write(values, chunk, v)
        values[chunk, q, a, c] = v[n]

    return more
