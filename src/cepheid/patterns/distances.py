"""Minimum and maximum distances between the symbols of a pattern over adjacent rows.

A shape lists the symbols that every match has, in order, and the number of other rows that may lie
between them. Shapes can be concatenated, repeated, and combined as alternatives; where Körber's
rewrite rules (table 3.2) produce any number of any rows, a shape has a gap with bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

BEYOND = 1 << 60
"""More rows than any stream has."""

SYMBOLS_MAX = 16
"""With more symbols, the rows of further ones become a gap."""


class Gap(NamedTuple):
    """A minimum and a maximum number of rows."""

    least: int
    most: int

    def plus(self, other: Gap) -> Gap:
        """Concatenate two gaps."""
        return Gap(self.least + other.least, min(self.most + other.most, BEYOND))

    def times(self, least: int, most: int | None) -> Gap:
        """Repeat a gap."""
        longest = BEYOND if most is None and self.most else self.most * (most or 0)
        return Gap(self.least * least, min(longest, BEYOND))

    def hull(self, other: Gap) -> Gap:
        """Compute the smallest gap that covers both."""
        return Gap(min(self.least, other.least), max(self.most, other.most))


NO_ROWS = Gap(0, 0)
ONE_ROW = Gap(1, 1)


class Shape(NamedTuple):
    """Symbols, and the rows before, between and after them: one gap more than symbols.

    A symbol is a set of variables; its row is bound to one of them.
    """

    symbols: tuple[frozenset[str], ...]
    gaps: tuple[Gap, ...]

    @property
    def length(self) -> Gap:
        """Compute the number of rows of a match."""
        return between(self, 0, len(self.gaps) - 1)


def between(shape: Shape, first: int, last: int) -> Gap:
    """Sum the rows from one gap to another, including both and the symbols between them."""
    found = NO_ROWS
    for gap in shape.gaps[first : last + 1]:
        found = found.plus(gap)
    return found.plus(Gap(last - first, last - first))


def rows(gap: Gap) -> Shape:
    """Build a shape of arbitrary rows."""
    return Shape((), (gap,))


def symbol(name: str) -> Shape:
    """Build the shape of one variable."""
    return Shape((frozenset([name]),), (NO_ROWS, NO_ROWS))


def follow(parts: Sequence[Shape]) -> Shape:
    """Concatenate shapes."""
    found = rows(NO_ROWS)
    for part in parts:
        middle = found.gaps[-1].plus(part.gaps[0])
        found = Shape(found.symbols + part.symbols, (*found.gaps[:-1], middle, *part.gaps[1:]))
        if len(found.symbols) > SYMBOLS_MAX:
            found = only(found, range(SYMBOLS_MAX))
    return found


def repeat(part: Shape, least: int, most: int | None) -> Shape:
    """Repeat a shape: the minimum number of copies, then arbitrary rows."""
    copies = min(least, SYMBOLS_MAX)
    rest = part.length.times(least - copies, None if most is None else most - copies)
    return follow([*([part] * copies), rows(rest)])


def either(parts: Sequence[Shape]) -> Shape:
    """Combine alternatives: into one common symbol, if each of them has one."""
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
    """Combine shapes in any order: the symbols of one of them, and the others before or after."""
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
    """Keep some symbols of a shape; the others become arbitrary rows."""
    symbols: list[frozenset[str]] = []
    gaps = [shape.gaps[0]]
    for place, names in enumerate(shape.symbols):
        if place in kept:
            symbols.append(names)
            gaps.append(shape.gaps[place + 1])
        else:
            gaps[-1] = gaps[-1].plus(ONE_ROW).plus(shape.gaps[place + 1])
    return Shape(tuple(symbols), tuple(gaps))
