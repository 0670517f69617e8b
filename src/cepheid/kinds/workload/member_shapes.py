"""Describe what members of a group compute, without names: parts, extremes, kinds of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol
from cepheid.plans.plan import TrendPlan


class PartShape(msgspec.Struct, frozen=True, order=True):
    """A part without its variable: the count or sum that it computes."""

    what: str
    attribute: str = ""


class ExtremeShape(msgspec.Struct, frozen=True, order=True):
    """An extreme without its variable."""

    attribute: str
    largest: bool


class Shapes(NamedTuple):
    """The parts and extremes of a query without names, sorted, and their numbers in the query."""

    parts: tuple[PartShape, ...]
    extremes: tuple[ExtremeShape, ...]
    orders: tuple[tuple[int, ...], tuple[int, ...]]


def shapes_of(plan: TrendPlan) -> Shapes:
    """Sort the parts and extremes of a query, so that those of others can be compared."""
    parts, extremes = parts_of(plan)
    shapes = [PartShape(part.what, part.attribute or "") for part in parts]
    # Part 0 counts matches in all groups.
    order = (0, *sorted(range(1, len(parts)), key=lambda a: shapes[a]))
    least = [ExtremeShape(extreme.attribute, extreme.largest) for extreme in extremes]
    ordered = tuple(sorted(range(len(extremes)), key=lambda a: least[a]))
    return Shapes(
        tuple(shapes[a] for a in order), tuple(least[a] for a in ordered), (order, ordered)
    )


class Conditions:
    """The distinct local predicates of each type in a group; ``most`` are allowed for a type."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str | None, set[frozenset[tree.Expression]]] = {}

    def have_room(self, symbols: Iterable[Symbol]) -> bool:
        """Check whether the group would distinguish few enough kinds of events with more."""
        wanted: dict[str | None, set[frozenset[tree.Expression]]] = {}
        for symbol in symbols:
            wanted.setdefault(symbol.event_type, set()).add(symbol.conditions)
        return all(
            len((conditions | self._known.get(kind, set())) - {frozenset()}) <= self._most
            for kind, conditions in wanted.items()
        )

    def add(self, symbols: Iterable[Symbol]) -> None:
        """Add symbols."""
        for symbol in symbols:
            self._known.setdefault(symbol.event_type, set()).add(symbol.conditions)
