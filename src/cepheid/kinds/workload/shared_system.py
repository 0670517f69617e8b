"""Merge the configurations of many queries into one linear system.

States with identical incoming transitions always hold the same count, so they are merged into one
*node*: same symbol, same start, reset by the same events, and equal sources. The coarsest such
partition is found by partition refinement, so loops (Kleene parts) are shared too. A-Seq's prefix
tree is the special case of plain sequences.

Where windows overlap, stretches of the stream are kept as matrices, and a node is a matrix entry:
it counts the matches that enter a stretch in configuration r and leave it in configuration q.
Entries have incoming transitions as well, so equal ones are one node. A common part of patterns, at
any position, is a common set of entries: this is A-Seq's chop-connect, with the shared part as a
shared factor.

Source: Qi et al., "Complex Event Analytics: Online Aggregation of Stream Sequence Patterns", SIGMOD
2014, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

UNIT = 0
"""The node of the empty match, whose count is always one."""

Place = tuple[int, int, int]
"""(query, r, q): the matches of a query that entered in r and are in q; r = q without matrices."""


class Cell(NamedTuple):
    """A configuration with symbols, parts and extremes as indexes of its group."""

    symbol: int
    sources: tuple[int, ...]
    clears: tuple[int, ...]
    kept: bool
    initial: bool
    counts: bool
    adds: tuple[tuple[int, ...], tuple[int, ...]]
    name: str
    once: bool = False


class Node(NamedTuple):
    """A count of the merged system; ``sources`` are nodes, one for each incoming transition."""

    symbol: int
    sources: tuple[int, ...]
    clears: tuple[int, ...]
    kept: bool
    initial: bool
    adds: tuple[tuple[int, ...], tuple[int, ...]]
    name: str
    shares: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class SharedSystem:
    """The nodes, and those that each query reads.

    Attributes
    ----------
    outputs
        For each query the nodes that count its matches.
    products
        If matrices are kept: for each node the pairs of nodes whose products sum to its value for
        two consecutive stretches. Otherwise empty.
    places
        The node of every configuration, or of every matrix entry.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[tuple[int, ...], ...]
    products: tuple[tuple[tuple[int, int], ...], ...]
    places: dict[Place, int]

    @property
    def before(self) -> int:
        """Count the nodes that the queries would have without sharing."""
        return len(self.places)


def merge_vectors(queries: Sequence[Sequence[Cell]]) -> SharedSystem:
    """Merge systems whose state is one vector: for windows that do not overlap."""
    places = [(n, q, q) for n, cells in enumerate(queries) for q in range(len(cells))]
    raw = {(n, q, q): [(n, s, s) for s in queries[n][q].sources] for n, q, _ in places}
    initial = {place: queries[place[0]][place[2]].initial for place in places}
    blocks = _split(queries, raw, initial)
    outputs = tuple(
        tuple(blocks[n, q, q] for q, cell in enumerate(cells) if cell.counts)
        for n, cells in enumerate(queries)
    )
    nodes = _nodes(queries, raw, initial, blocks)
    return SharedSystem(nodes, outputs, (), blocks)


def merge_matrices(queries: Sequence[Sequence[Cell]]) -> SharedSystem:
    """Merge systems whose state is a matrix: for windows that overlap."""
    raw: dict[Place, list[Place]] = {}
    reach = [_reach(cells) for cells in queries]
    for n, cells in enumerate(queries):
        for r, reached in enumerate(reach[n]):
            for q in reached:
                raw[n, r, q] = [(n, r, s) for s in cells[q].sources if s in reached]
    initial = {place: place[1] == place[2] for place in raw}
    blocks = _split(queries, raw, initial)
    outputs = tuple(
        tuple(
            blocks[n, r, q]
            for r, start in enumerate(cells)
            for q in sorted(reach[n][r])
            if start.initial and cells[q].counts
        )
        for n, cells in enumerate(queries)
    )
    count = max(blocks.values(), default=UNIT) + 1
    products: list[tuple[tuple[int, int], ...]] = [()] * count
    for (n, r, q), node in blocks.items():
        if products[node] or node == UNIT:
            continue
        ways = [s for s in sorted(reach[n][r]) if q in reach[n][s]]
        products[node] = tuple((blocks[n, r, s], blocks[n, s, q]) for s in ways)
    nodes = _nodes(queries, raw, initial, blocks)
    return SharedSystem(nodes, outputs, tuple(products), blocks)


def _reach(cells: Sequence[Cell]) -> list[set[int]]:
    """Compute for each configuration the reachable ones, itself included."""
    follow: list[list[int]] = [[] for _ in cells]
    for q, cell in enumerate(cells):
        for s in cell.sources:
            follow[s].append(q)
    found = []
    for r in range(len(cells)):
        seen = {r}
        waiting = [r]
        while waiting:
            for q in follow[waiting.pop()]:
                if q not in seen:
                    seen.add(q)
                    waiting.append(q)
        found.append(seen)
    return found


def _split(
    queries: Sequence[Sequence[Cell]], raw: dict[Place, list[Place]], initial: dict[Place, bool]
) -> dict[Place, int]:
    """Compute the coarsest partition by incoming transitions; UNIT is block 0."""
    unit = ((-1, True, (), True, ((), ()), False), ())
    kinds: dict[Place, tuple[object, ...]] = {}
    for place, sources in raw.items():
        cell = queries[place[0]][place[2]]
        # Without incoming transitions a place stays zero: neither symbol nor parts matter.
        symbol, adds = (cell.symbol, cell.adds) if sources else (-1, ((), ()))
        once = cell.once and bool(sources)
        kinds[place] = (symbol, initial[place], cell.clears, cell.kept, adds, once)
    blocks: dict[Place, int] = dict.fromkeys(raw, 0)
    count = 0
    while True:
        numbers: dict[tuple[object, ...], int] = {unit: UNIT}
        found = {}
        for place, sources in raw.items():
            name = (kinds[place], tuple(sorted([blocks[s] for s in sources])))
            found[place] = numbers.setdefault(name, len(numbers))
        if len(numbers) == count:
            return found
        blocks, count = found, len(numbers)


def _nodes(
    queries: Sequence[Sequence[Cell]],
    raw: dict[Place, list[Place]],
    initial: dict[Place, bool],
    blocks: dict[Place, int],
) -> tuple[Node, ...]:
    found: dict[int, Node] = {UNIT: Node(-1, (), (), True, True, ((), ()), "start", len(queries))}
    members: dict[int, set[int]] = {}
    for place, node in blocks.items():
        members.setdefault(node, set()).add(place[0])
    for place, node in blocks.items():
        if node in found:
            continue
        cell = queries[place[0]][place[2]]
        sources = tuple(sorted(blocks[s] for s in raw[place]))
        symbol, adds = (cell.symbol, cell.adds) if sources else (-1, ((), ()))
        name = cell.name
        if place[1] != place[2] and not queries[place[0]][place[1]].initial:
            name = f"{queries[place[0]][place[1]].name}..{name}"
        found[node] = Node(
            symbol, sources, cell.clears, cell.kept, initial[place], adds, name,
            len(members[node]), cell.once and bool(sources),
        )  # fmt: skip
    return tuple(found[n] for n in range(len(found)))
