"""Partial equivalence: the segments of a partition, once for every value among some variables.

``[P.vehicle, segment]`` makes vehicle equal among the events of P only (§4.3). For each vehicle of
a segment the events of P with another vehicle are left out and all others shared; a match counts
where it binds a P of this vehicle. Matches without any P are counted once, apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cepheid.engine.segments import Segments
from cepheid.planner.template import START, Edge, Final, Template


def split_segments(
    segments: Segments,
    attribute: int,
    listed: int,
    codes: NDArray[np.int64],
    apart: NDArray[np.bool_] | None,
    *,
    others: bool,
) -> Segments:
    """Return the segments of every value of an attribute, and those of none.

    Parameters
    ----------
    attribute
        The number of the attribute: bit of ``chosen``.
    listed
        The variables whose events share a value, as bits.
    codes
        The number of every event's value, -1 for NULL.
    apart
        Under contiguous: events that belong to one value only, since their type is a listed
        variable's. Others, and all under the other semantics, belong to all.
    others
        Whether events of other values matter although they cannot be bound; else they are left
        out, since there may be as many values as events.
    """
    owner = np.repeat(np.arange(len(segments.key)), np.diff(segments.ptr))
    code = codes[segments.rows]
    bits = np.where(code < 0, segments.bits & ~listed, segments.bits)
    values = bits & listed != 0 if apart is None else apart[segments.rows]
    values &= code >= 0
    # One sub-segment for every (segment, value), after those of no value, one for every segment.
    pairs, mine = np.unique(np.stack([owner[values], code[values]]), axis=1, return_inverse=True)
    count = len(segments.key)
    first = np.searchsorted(pairs[0], np.arange(count))[owner]
    number = (np.searchsorted(pairs[0], np.arange(count), side="right"))[owner] - first
    if not others:
        only = values & (bits & ~listed == 0)
        number = np.where(only, 1, number)
        first[values] = np.where(only[values], mine.ravel(), first[values])
    place = np.repeat(np.arange(len(owner)), number)
    within = np.arange(len(place)) - np.repeat(np.cumsum(number) - number, number)
    sub = first[place] + within
    own = code[place] == pairs[1][sub] if len(sub) else np.zeros(0, np.bool_)
    here = np.where(own, bits[place], bits[place] & ~listed)
    away = np.where(own, 0, bits[place] & listed) | segments.blocked[place]
    kept = (here != 0) | others if apart is None else own | ~apart[segments.rows[place]]
    alone = np.ones(len(owner), np.bool_) if apart is None else ~apart[segments.rows] | (code >= 0)
    at = np.concatenate([np.flatnonzero(alone), place[kept]])
    target = np.concatenate([owner[alone], count + sub[kept]])
    new_bits = np.concatenate([bits[alone] & ~listed, here[kept]])
    blocked = np.concatenate([(bits & listed | segments.blocked)[alone], away[kept]])
    order = np.lexsort((at, target))
    at, target = at[order], target[order]
    total = count + pairs.shape[1]
    ptr = np.searchsorted(target, np.arange(total + 1)).astype(np.int64)
    parent = np.concatenate([np.arange(count), pairs[0]])
    chosen = segments.chosen[parent]
    chosen[count:] |= 1 << attribute
    return Segments(
        segments.key[parent], segments.window[parent], ptr, segments.rows[at], new_bits[order],
        blocked[order], chosen, segments.base[parent],
    )  # fmt: skip


def require_values(
    template: Template, listed: Sequence[frozenset[str]], chosen: int
) -> tuple[Template, list[int]]:
    """Return a template whose matches bind variables of exactly the chosen attributes.

    Also return which attributes have a value in each of its states.
    """
    numbers: dict[tuple[int, int], int] = {}
    edges: list[Edge] = []
    waiting: list[tuple[int, int]] = [(START, 0)]
    outgoing: dict[int, list[Edge]] = {}
    for edge in template.edges:
        outgoing.setdefault(edge.source, []).append(edge)
    for source, known in waiting:
        for edge in outgoing.get(source, ()):
            variable = template.states[edge.target].variable
            seen = known | sum(1 << a for a, names in enumerate(listed) if variable in names)
            if seen & ~chosen:
                continue
            target = (edge.target, seen)
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            begin = START if source == START else numbers[source, known]
            edges.append(Edge(begin, numbers[target], edge.clear, edge.hit))
    finals = {final.state: final.alternatives for final in template.finals}
    required = Template(
        states=tuple(template.states[q] for q, _ in numbers),
        edges=tuple(edges),
        finals=tuple(
            Final(number, finals[q])
            for (q, seen), number in numbers.items()
            if q in finals and seen == chosen
        ),
        guards=template.guards,
        text=template.text,
        span=template.span,
        determinised=template.determinised,
        shortest=template.shortest,
    )
    return required, [seen for _, seen in numbers]
