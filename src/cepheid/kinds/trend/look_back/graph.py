"""Convert a template to arrays: how an event finds the events that it may follow.

An edge of the template becomes one of four lookups (``kernels/graph.py``):

    TOTAL   no predicate, no guard: one running aggregate for the state
    INDEX   one separated predicate, or a guard alone: a tree of sums over ranks
    RANGE   several predicates: scan the rank range of the most selective one
    SCAN    predicates that do not separate, or the pairwise evaluator: all earlier events
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import graph as kernel
from cepheid.kinds.trend.planning.aliases import Alias
from cepheid.language import tree
from cepheid.plans.plan import Evaluator
from cepheid.plans.template import START, Edge, Place, Template

_PLACES = {
    Place.BETWEEN: kernel.BETWEEN,
    Place.LEADING: kernel.LEADING,
    Place.TRAILING: kernel.TRAILING,
    # No edge asks for what ends a loop.
    Place.LOOP: kernel.BETWEEN,
}


class Pair(NamedTuple):
    """Two variables with edge predicates: the ranked ones, the best first, and whether more."""

    prev: str
    next: str
    predicates: tuple[int, ...]
    masked: bool


class GraphTables(NamedTuple):
    """The arrays of a graph; see the module's docstring and ``kernels/graph.py``."""

    variable: NDArray[np.int64]
    edge_ptr: NDArray[np.int64]
    source: NDArray[np.int64]
    mode: NDArray[np.int64]
    edge_pair: NDArray[np.int64]
    edge_index: NDArray[np.int64]
    guard_ptr: NDArray[np.int64]
    guard: NDArray[np.int64]
    guard_kind: NDArray[np.int64]
    way_ptr: NDArray[np.int64]
    way_guard_ptr: NDArray[np.int64]
    way_guard: NDArray[np.int64]
    pair_ptr: NDArray[np.int64]
    predicate: NDArray[np.int64]
    pair_mask: NDArray[np.int64]
    outside: NDArray[np.bool_]
    index_source: NDArray[np.int64]
    index_predicate: NDArray[np.int64]
    index_guarded: NDArray[np.bool_]
    index_summed: NDArray[np.bool_]
    allowed: NDArray[np.int64]
    pair_of: NDArray[np.int64]
    waiting_set: NDArray[np.int64]


class _Index(NamedTuple):
    source: int
    predicate: int
    guards: tuple[tuple[int, int], ...]
    summed: bool


class GraphBuilder:
    """Builds the tables of one template for the predicates at hand."""

    def __init__(
        self,
        template: Template,
        variables: Sequence[str],
        pairs: Sequence[Pair],
        outside: Sequence[bool],
        semantics: tree.Semantics,
        evaluator: Evaluator,
        aliases: Sequence[Alias] = (),
        seen: Sequence[int] = (),
    ) -> None:
        self._template = template
        self._number = {name: n for n, name in enumerate(variables)}
        self._pairs = {(pair.prev, pair.next): n for n, pair in enumerate(pairs)}
        self._relations = list(pairs)
        self._outside = list(outside)
        self._semantics = semantics
        self._evaluator = evaluator
        self._aliases = aliases
        self._seen = seen
        self._indexes: dict[_Index, int] = {}

    def build(self) -> GraphTables:
        """Build the arrays."""
        template = self._template
        states = template.states
        edges = [[e for e in template.edges if e.target == q] for q in range(len(states))]
        flat = [edge for group in edges for edge in group]
        placed = [self._place_edge(edge) for edge in flat]
        guards = [self._guards_of(edge) for edge in flat]
        ways = {final.state: final.alternatives for final in template.finals}
        ends = [ways.get(q, ()) for q in range(len(states))]
        waiting = self._waiting_sets()
        masks = np.cumsum([pair.masked for pair in self._relations])
        indexes = list(self._indexes)
        return GraphTables(
            _array([self._number[state.variable] for state in states]),
            _pointers(edges),
            _array([edge.source for edge in flat]),
            _array([mode for mode, _, _ in placed]),
            _array([pair for _, pair, _ in placed]),
            _array([index for _, _, index in placed]),
            _pointers(guards),
            _array([guard for found in guards for guard, _ in found]),
            _array([kind for found in guards for _, kind in found]),
            _pointers(ends),
            _pointers([way for found in ends for way in found]),
            _array([guard for found in ends for way in found for guard in way]),
            _pointers([pair.predicates for pair in self._relations]),
            _array([n for pair in self._relations for n in pair.predicates]),
            _array([int(masks[n]) - 1 if p.masked else -1 for n, p in enumerate(self._relations)]),
            np.array(self._outside, np.bool_),
            _array([index.source for index in indexes]),
            _array([index.predicate for index in indexes]),
            np.array([bool(index.guards) for index in indexes], np.bool_),
            np.array([index.summed for index in indexes], np.bool_),
            _array([sum(1 << n for n, _ in self._next(q)) for q in range(len(states))]),
            self._pair_table(),
            waiting,
        )

    def _place_edge(self, edge: Edge) -> tuple[int, int, int]:
        """Choose mode, pair and index of an edge."""
        if edge.source == START:
            return kernel.TOTAL, -1, -1
        states = self._template.states
        name = (states[edge.source].variable, states[edge.target].variable)
        pair = self._pairs.get(name, -1)
        guards = tuple(self._guards_of(edge))
        if self._semantics is not tree.Semantics.ANY_MATCH:
            return kernel.SCAN, pair, -1
        predicates = self._relations[pair].predicates if pair >= 0 else ()
        if pair < 0 and not guards:
            return kernel.TOTAL, pair, -1
        if self._evaluator is Evaluator.PAIRWISE or (pair >= 0 and not predicates):
            return kernel.SCAN, pair, -1
        if pair < 0:
            return kernel.INDEX, pair, self._index(_Index(edge.source, -1, guards, True))
        if len(predicates) == 1 and not self._relations[pair].masked:
            index = _Index(edge.source, predicates[0], guards, True)
            return kernel.INDEX, pair, self._index(index)
        return kernel.RANGE, pair, self._index(_Index(edge.source, predicates[0], (), False))

    def _guards_of(self, edge: Edge) -> list[tuple[int, int]]:
        places = [_PLACES[guard.place] for guard in self._template.guards]
        clear = [(g, places[g]) for g in edge.clear]
        return clear + [(g, places[g] + kernel.HIT) for g in edge.hit]

    def _index(self, index: _Index) -> int:
        return self._indexes.setdefault(index, len(self._indexes))

    def _waiting_sets(self) -> NDArray[np.int64]:
        """Find the set in which a variable looks up waiting matches (skip-till-next-match)."""
        width = len(self._number) + len(self._aliases)
        sets = np.full((len(self._template.states), width), -1, np.int64)
        if self._semantics is not tree.Semantics.NEXT_MATCH:
            return sets
        for q, state in enumerate(self._template.states):
            for number, name in self._next(q):
                pair = self._pairs.get((state.variable, name), -1)
                predicates = self._relations[pair].predicates if pair >= 0 else ()
                first = predicates[0] if predicates else -1
                if self._evaluator is Evaluator.PAIRWISE:
                    first = -1
                sets[q, number] = self._index(_Index(q, first, (), False))
        return sets

    def _next(self, q: int) -> Iterator[tuple[int, str]]:
        """List the variables and aliases that may follow a state, with their numbers."""
        allowed = self._template.states[q].allowed
        yield from ((self._number[name], name) for name in allowed)
        for number, alias in enumerate(self._aliases, len(self._number)):
            if alias.variable in allowed and not alias.differs & self._seen[q]:
                yield number, alias.variable

    def _pair_table(self) -> NDArray[np.int64]:
        width = len(self._number) + len(self._aliases)
        table = np.full((width, width), -1, np.int64)
        for (prev, later), n in self._pairs.items():
            table[self._number[prev], self._number[later]] = n
        for number, alias in enumerate(self._aliases, len(self._number)):
            table[:, number] = table[:, self._number[alias.variable]]
        return table


def _array(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _pointers(rows: Sequence[Sequence[Any]]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
