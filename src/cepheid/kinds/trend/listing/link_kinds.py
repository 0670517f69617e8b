"""Convert the rules of links to the tables of ``kernels/links.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import links as kernel
from cepheid.kernels import starts
from cepheid.language import tree
from cepheid.plans.links import Links
from cepheid.plans.template import START, Edge, Final, State, Template

RULES = {
    tree.Semantics.ANY_MATCH: starts.ANY,
    tree.Semantics.NEXT_MATCH: starts.NEXT,
    tree.Semantics.CONTIGUOUS: starts.CONTIGUOUS,
}


class LinkTables(NamedTuple):
    """The kinds of links, and the states and variables that they belong to.

    ``stops`` are the variables that close a kind, as bits; ``stops_of`` those that end the loops of
    a variable, and ``own_stops`` of a state's variable. ``reached`` is how a state is reached.
    """

    rule: NDArray[np.int64]
    stops: NDArray[np.int64]
    kind_of: NDArray[np.int64]
    stops_of: NDArray[np.int64]
    own_stops: NDArray[np.int64]
    reached: NDArray[np.int64]


class LinkRoom(NamedTuple):
    """The rows of the current segment whose links are open, for every state and kind."""

    member: NDArray[np.int64]
    members: NDArray[np.int64]


def split_by_link(template: Template, links: Links) -> tuple[Template, list[int]]:
    """Split states by how they are reached: other events of their time close links of some only.

    Also return how each state is reached.
    """
    numbers: dict[tuple[int, int], int] = {}
    edges: list[Edge] = []
    waiting: list[tuple[int, int]] = [(START, START)]
    for place in waiting:
        source = START if place[0] == START else numbers[place]
        for edge in (e for e in template.edges if e.source == place[0]):
            target = (edge.target, _reached(template, links, edge))
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            edges.append(Edge(source, numbers[target], edge.clear, edge.hit))
    finals = {final.state: final.alternatives for final in template.finals}
    states: tuple[State, ...] = tuple(template.states[state] for state, _ in numbers)
    whole = Template(
        states=states,
        edges=tuple(edges),
        finals=tuple(
            Final(number, finals[state])
            for (state, _), number in numbers.items()
            if state in finals
        ),
        guards=template.guards,
        text=template.text,
        span=template.span,
        determinised=template.determinised,
        shortest=template.shortest,
    )
    return whole, [reached for _, reached in numbers]


def _reached(template: Template, links: Links, edge: Edge) -> int:
    if edge.source == START:
        return kernel.BEGINS
    pair = template.states[edge.source].variable, template.states[edge.target].variable
    contiguous = links.rule(*pair) is tree.Semantics.CONTIGUOUS
    return kernel.JOINED if contiguous else kernel.LINKED


def tables_of(
    template: Template, links: Links, variables: Sequence[str], reached: Sequence[int]
) -> tuple[LinkTables, NDArray[np.int64]]:
    """Build the tables of links, and the kind of every edge in the order of the graph's edges."""
    bit = {name: 1 << number for number, name in enumerate(variables)}
    stops = {name: sum(bit[stop] for stop in links.stops(name)) for name in variables}
    kinds: dict[tuple[int, int], int] = {}

    def kind_of(prev: str, later: str) -> int:
        return kinds.setdefault((RULES[links.rule(prev, later)], stops[later]), len(kinds))

    states = template.states
    table = np.full((len(states), len(variables)), -1, np.int64)
    for q, state in enumerate(states):
        for name in state.allowed:
            table[q, variables.index(name)] = kind_of(state.variable, name)
    grouped = [[e for e in template.edges if e.target == q] for q in range(len(states))]
    of_edges = [
        0 if e.source == START else kind_of(states[e.source].variable, states[e.target].variable)
        for group in grouped
        for e in group
    ]
    if not kinds:
        kinds[starts.ANY, 0] = 0
    tables = LinkTables(
        np.array([rule for rule, _ in kinds], np.int64),
        np.array([mask for _, mask in kinds], np.int64),
        table,
        np.array([stops[name] for name in variables], np.int64),
        np.array([stops[state.variable] for state in states], np.int64),
        np.array(reached, np.int64),
    )
    return tables, np.array(of_edges, np.int64)
