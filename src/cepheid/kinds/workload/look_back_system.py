"""Merge the states of queries with edge predicates into nodes, forwards or backwards.

States with the same symbol, the same start and equal incoming transitions, whose edge predicates
are the same, always hold the same aggregates for an event, so they are one *node*. A state behind a
NOT *waits*: it is bound to no event, adds up what its sources hold, and events of the NOT empty
it. So a NOT between two events of a match, before the first or after the last one is a state more.

Read forwards, an event holds the matches that end with it: queries that begin alike share.
Backwards, it holds those that begin with it: queries that end alike share, such as ``SEQ(A, S+)``
and ``SEQ(B, S+)``. The count of a query is a sum over (entry, way through the Kleene part, exit),
so both directions give it, and each query takes the one in which more of it is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

WAITING = -1
"""The symbol of states that are bound to no event."""

NO_RELATION = -1
"""The relation of a transition without an edge predicate."""

PASS_LANES = 4
"""A second pass over the events costs about as much as so many lanes."""

Source = tuple[int, int]
"""Where a transition comes from, and the number of its relation."""


class BackCell(NamedTuple):
    """A state of a query, with symbols, relations and parts as numbers of its group.

    ``clears`` are the symbols of events that empty a waiting state.
    """

    symbol: int
    sources: tuple[Source, ...]
    begins: bool
    ends: bool
    adds: tuple[tuple[int, ...], tuple[int, ...]]
    clears: tuple[int, ...] = ()

    @property
    def related(self) -> bool:
        """Check whether an edge predicate leads here."""
        return any(relation != NO_RELATION for _, relation in self.sources)


Cells = tuple[BackCell, ...]


@dataclass(frozen=True)
class BackSystem:
    """Nodes, as cells whose sources are nodes, and those that count the matches of each query."""

    nodes: Cells
    outputs: tuple[tuple[int, ...], ...]
    places: dict[tuple[int, int], int]

    @cached_property
    def looked_up(self) -> frozenset[int]:
        """Collect the nodes that keep their events by rank: the lanes of indexes."""
        return frozenset(
            source for node in self.nodes for source, relation in node.sources if relation >= 0
        )


class Pass(NamedTuple):
    """One pass over the events of a group, for some of its members."""

    backwards: bool
    members: tuple[int, ...]
    system: BackSystem


def turned(cells: Cells) -> Cells:
    """Turn a query around: its matches from their last event to their first."""
    sources: list[list[Source]] = [[] for _ in cells]
    for q, cell in enumerate(cells):
        for source, relation in cell.sources:
            sources[source].append((q, relation))
    return tuple(
        cell._replace(sources=tuple(own), begins=cell.ends, ends=cell.begins)
        for cell, own in zip(cells, sources, strict=True)
    )


def merge_cells(queries: Sequence[Cells]) -> BackSystem:
    """Merge the states of queries to the coarsest nodes, by partition refinement."""
    places = [(n, q) for n, cells in enumerate(queries) for q in range(len(cells))]
    blocks = dict.fromkeys(places, 0)
    count = 0
    while True:
        numbers: dict[tuple[object, ...], int] = {}
        found = {}
        for n, q in places:
            cell = queries[n][q]
            sources = tuple(sorted((blocks[n, s], relation) for s, relation in cell.sources))
            name = (cell.symbol, cell.begins, cell.adds, cell.clears, sources)
            found[n, q] = numbers.setdefault(name, len(numbers))
        if len(numbers) == count:
            break
        blocks, count = found, len(numbers)
    nodes: dict[int, BackCell] = {}
    for (n, q), node in blocks.items():
        cell = queries[n][q]
        merged = tuple(sorted((blocks[n, s], relation) for s, relation in cell.sources))
        nodes.setdefault(node, cell._replace(sources=merged, ends=False))
    outputs = tuple(
        tuple(blocks[n, q] for q, cell in enumerate(cells) if cell.ends)
        for n, cells in enumerate(queries)
    )
    return BackSystem(tuple(nodes[n] for n in range(count)), outputs, blocks)


def choose_passes(queries: Sequence[Cells]) -> tuple[Pass, ...]:
    """Choose the direction of every query, so that there are few lanes.

    A query needs its lanes in one of the two directions. All queries in one direction is a good
    choice, unless some begin alike and others end alike: then each gets the lanes that serve the
    most queries that have none yet.
    """
    everyone = tuple(range(len(queries)))
    both = [_pass(queries, everyone, backwards=backwards) for backwards in (False, True)]
    best = min(both, key=_lanes)
    if _lanes(best) <= PASS_LANES + 2:
        return (best,)
    split = _split(both)
    mixed = tuple(
        _pass(queries, members, backwards=bool(backwards))
        for backwards, members in enumerate(split)
        if members
    )
    if len(mixed) == 2 and sum(map(_lanes, mixed)) + PASS_LANES < _lanes(best):
        return mixed
    return (best,)


def _pass(queries: Sequence[Cells], members: tuple[int, ...], *, backwards: bool) -> Pass:
    mine = [turned(queries[n]) if backwards else queries[n] for n in members]
    return Pass(backwards, members, merge_cells(mine))


def _lanes(one: Pass) -> int:
    return len(one.system.looked_up)


def _split(both: Sequence[Pass]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cover all queries with few lanes of both directions, the most useful ones first."""
    wanted: list[list[frozenset[int]]] = []
    for one in both:
        lanes: list[set[int]] = [set() for _ in one.members]
        for (n, _), node in one.system.places.items():
            if node in one.system.looked_up:
                lanes[n].add(node)
        wanted.append([frozenset(own) for own in lanes])
    open_ = set(both[0].members)
    chosen: tuple[list[int], list[int]] = ([], [])
    while open_:
        served: dict[tuple[int, frozenset[int]], list[int]] = {}
        for n in sorted(open_):
            for direction in (0, 1):
                served.setdefault((direction, wanted[direction][n]), []).append(n)
        (direction, _), members = max(
            served.items(), key=lambda item: len(item[1]) / max(len(item[0][1]), 1)
        )
        chosen[direction].extend(members)
        open_.difference_update(members)
    return tuple(sorted(chosen[0])), tuple(sorted(chosen[1]))
