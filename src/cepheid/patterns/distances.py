"""How far apart the symbols of a pattern over adjacent rows are: at least, and at most.

A shape lists symbols that every match has, in their order, and between them how many other rows
there may be. Shapes follow each other, repeat, and stand for alternatives; what Körber's rewrite
rules (table 3.2) turn into any number of any rows becomes a gap with its bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

BEYOND = 1 << 60
"""More rows than there are."""

SYMBOLS_MAX = 16
"""More symbols of one pattern are not told apart: their rows are a gap."""


class Gap(NamedTuple):
    """So many rows, at least and at most."""

    least: int
    most: int

    def plus(self, other: Gap) -> Gap:
        """Return one gap after the other."""
        return Gap(self.least + other.least, min(self.most + other.most, BEYOND))

    def times(self, least: int, most: int | None) -> Gap:
        """Return a gap that is repeated."""
        longest = BEYOND if most is None and self.most else self.most * (most or 0)
        return Gap(self.least * least, min(longest, BEYOND))

    def hull(self, other: Gap) -> Gap:
        """Return what is either."""
        return Gap(min(self.least, other.least), max(self.most, other.most))


NO_ROWS = Gap(0, 0)
ONE_ROW = Gap(1, 1)


class Shape(NamedTuple):
    """Symbols, and the rows before, between and after them: one gap more than symbols.

    A symbol is the set of variables to one of which its row is bound.
    """

    symbols: tuple[frozenset[str], ...]
    gaps: tuple[Gap, ...]

    @property
    def length(self) -> Gap:
        """Return how many rows a match has."""
        return between(self, 0, len(self.gaps) - 1)


def between(shape: Shape, first: int, last: int) -> Gap:
    """Return the rows from one gap to another, with both and the symbols between them."""
    found = NO_ROWS
    for gap in shape.gaps[first : last + 1]:
        found = found.plus(gap)
    return found.plus(Gap(last - first, last - first))


def rows(gap: Gap) -> Shape:
    """Return a shape of any rows."""
    return Shape((), (gap,))


def symbol(name: str) -> Shape:
    """Return the shape of one variable."""
    return Shape((frozenset([name]),), (NO_ROWS, NO_ROWS))


def follow(parts: Sequence[Shape]) -> Shape:
    """Return shapes one after the other."""
    found = rows(NO_ROWS)
    for part in parts:
        middle = found.gaps[-1].plus(part.gaps[0])
        found = Shape(found.symbols + part.symbols, (*found.gaps[:-1], middle, *part.gaps[1:]))
        if len(found.symbols) > SYMBOLS_MAX:
            found = only(found, range(SYMBOLS_MAX))
    return found


def repeat(part: Shape, least: int, most: int | None) -> Shape:
    """Return a shape that is repeated: the least number of copies, then any rows."""
    copies = min(least, SYMBOLS_MAX)
    rest = part.length.times(least - copies, None if most is None else most - copies)
    return follow([*([part] * copies), rows(rest)])


def either(parts: Sequence[Shape]) -> Shape:
    """Return alternatives: one symbol for all, if each of them has one."""
    if not all(part.symbols for part in parts):
        length = parts[0].length
        for part in parts[1:]:
            length = length.hull(part.length)
        return rows(length)
    singles = [only(part, [0]) for part in parts]
    names: frozenset[str] = frozenset().union(*(part.symbols[0] for part in singles))
    before, after = singles[0].gaps
    for part in singles[1:]:
        before, after = before.hull(part.gaps[0]), after.hull(part.gaps[1])
    return Shape((names,), (before, after))


def in_any_order(parts: Sequence[Shape]) -> Shape:
    """Return shapes in any order: the symbols of one of them, and the rest before or after."""
    most = sum(part.length.most for part in parts)
    whole = follow(parts).length
    for part in parts:
        if part.symbols:
            single = only(part, [0])
            others = Gap(0, min(most, BEYOND))
            before, after = single.gaps
            return Shape(single.symbols, (before.plus(others), after.plus(others)))
    return rows(whole)


def only(shape: Shape, kept: Collection[int]) -> Shape:
    """Return a shape in which some symbols are rows like all others."""
    symbols: list[frozenset[str]] = []
    gaps = [shape.gaps[0]]
    for place, names in enumerate(shape.symbols):
        if place in kept:
            symbols.append(names)
            gaps.append(shape.gaps[place + 1])
        else:
            gaps[-1] = gaps[-1].plus(ONE_ROW).plus(shape.gaps[place + 1])
    return Shape(tuple(symbols), tuple(gaps))
