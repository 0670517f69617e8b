"""Partial equivalence: split the segments of a partition by every value of some variables.

``[P.vehicle, segment]`` makes vehicle equal among the events of P only (§4.3). For each vehicle of
a segment, the events of P with another vehicle are dropped and all others are shared; a match
counts where it binds a P of this vehicle. Matches without any P are counted once, separately.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.trend.planning.aliases import Aliases
from cepheid.patterns.segments import Segments
from cepheid.plans.template import START, Edge, Final, Template


def split_segments(
    segments: Segments,
    attribute: int,
    listed: int,
    aliases: Aliases,
    codes: NDArray[np.int64],
    apart: NDArray[np.bool_] | None,
    *,
    blocking: bool,
) -> Segments:
    """Build the segments without a value of an attribute, and then those of every value.

    Parameters
    ----------
    attribute
        The number of the attribute: bit of ``chosen``.
    listed
        The variables whose events share a value, as bits.
    aliases
        The variables as which events of other values end the waiting of matches.
    codes
        The number of every event's value, -1 for NULL.
    apart
        Under contiguous: events that belong to one value only, since their type is a listed
        variable's. Others, and all under the other semantics, belong to all.
    blocking
        Whether events of other values matter because they end the waiting of a match that has no
        value yet (skip-till-next-match).
    """
    owner = np.repeat(np.arange(len(segments.key)), np.diff(segments.ptr))
    code = codes[segments.rows]
    null = listed | aliases.of(listed)
    bits = np.where(code < 0, segments.bits & ~null, segments.bits)
    held = np.where(code < 0, segments.blocked & ~null, segments.blocked)
    away = aliases.move(bits & listed | held, attribute)
    if apart is None:
        valued = (bits & listed != 0) & (code >= 0)
        shared = bits & ~listed | held != 0
        if blocking:
            shared |= away != 0
        alone = np.ones(len(owner), np.bool_)
    else:
        valued = apart[segments.rows] & (code >= 0)
        shared = ~apart[segments.rows]
        alone = shared | (code >= 0)
    # A part for every (segment, value), after the parts without a value, one per segment.
    width = int(code.max()) + 2 if len(code) else 1
    pairs = np.unique(owner[valued] * width + code[valued])
    parent = pairs // width
    count = len(segments.key)
    first = np.searchsorted(parent, np.arange(count))
    number = np.searchsorted(parent, np.arange(count), side="right") - first
    own = np.full(len(owner), -1, np.int64)
    known = np.flatnonzero((code >= 0) & (valued | shared))
    wanted = owner[known] * width + code[known]
    at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
    known, at = (a[pairs[at] == wanted] if len(pairs) else a[:0] for a in (known, at))
    own[known] = at
    # Shared events belong to all parts of their segment.
    common = np.flatnonzero(shared)
    repeats = number[owner[common]]
    place = np.repeat(common, repeats)
    part = np.arange(len(place)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    part += first[owner[place]]
    foreign = part != own[place]
    place, part = place[foreign], part[foreign]
    sole = known
    at = np.concatenate([np.flatnonzero(alone), sole, place])
    target = np.concatenate([owner[alone], count + own[sole], count + part])
    here = np.concatenate([bits[alone] & ~listed, bits[sole], bits[place] & ~listed])
    blocked = np.concatenate([away[alone], held[sole], away[place]])
    order = np.lexsort((at, target))
    at, target = at[order], target[order]
    ptr = np.searchsorted(target, np.arange(count + len(pairs) + 1)).astype(np.int64)
    source = np.concatenate([np.arange(count), parent])
    chosen = segments.chosen[source]
    chosen[count:] |= 1 << attribute
    return Segments(
        segments.key[source], segments.window[source], ptr, segments.rows[at], here[order],
        blocked[order], chosen, segments.base[source],
    )  # fmt: skip


def require_values(
    template: Template, listed: Sequence[frozenset[str]], chosen: int
) -> tuple[Template, list[int]]:
    """Build a template whose matches bind variables of exactly the chosen attributes.

    Also return the attributes that have a value in each of its states.
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
