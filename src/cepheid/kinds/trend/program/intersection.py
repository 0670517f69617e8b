"""Intersect two templates: the matches of both (for ``P AND Q``, §2.10)."""

from __future__ import annotations

from itertools import product

from cepheid.plans.template import START, Edge, Final, State, Template


def intersect(first: Template, second: Template) -> Template:
    """Build a template whose matches are exactly those of both; O(edges x edges).

    A state is a pair of states of one variable. It has the guards of both. The allowed variables
    are the union of both: a match of both skips no event that could extend it in one.
    """
    shift = len(first.guards)
    pairs: dict[tuple[int, int], int] = {}
    edges: list[Edge] = []
    waiting = [(START, START)]
    for pair in waiting:
        for one, two in product(first.edges, second.edges):
            if (one.source, two.source) != pair:
                continue
            if first.states[one.target].variable != second.states[two.target].variable:
                continue
            target = (one.target, two.target)
            if target not in pairs:
                pairs[target] = len(pairs)
                waiting.append(target)
            source = START if pair == (START, START) else pairs[pair]
            clear = (*one.clear, *(g + shift for g in two.clear))
            hit = (*one.hit, *(g + shift for g in two.hit))
            edges.append(Edge(source, pairs[target], clear, hit))
    ends = {f.state: f.alternatives for f in first.finals}
    other = {f.state: f.alternatives for f in second.finals}
    finals = tuple(
        Final(
            number,
            tuple((*a, *(g + shift for g in b)) for a, b in product(ends[s], other[t])),
        )
        for (s, t), number in pairs.items()
        if s in ends and t in other
    )
    states = tuple(_pair_state(first.states[s], second.states[t]) for s, t in pairs)
    return Template(
        states=states,
        edges=tuple(edges),
        finals=finals,
        guards=(*first.guards, *second.guards),
        text=f"{first.text} and {second.text}",
        span=first.span,
        determinised=first.determinised or second.determinised,
        shortest=max(first.shortest, second.shortest),
    )


def _pair_state(one: State, two: State) -> State:
    allowed = tuple(dict.fromkeys((*one.allowed, *two.allowed)))
    return State(one.variable, one.event_type, allowed)
