"""Compute the distances between the variables of a contiguous pattern, as a shape.

Under the semantics contiguous every edge of the template leads to the next event of the stream.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from cepheid.patterns.distances import BEYOND, Gap, Shape
from cepheid.plans.template import START, Template


def shape_of(template: Template, symbols: Sequence[Collection[str]]) -> Shape | None:
    """Build the shape of some required variables, in order; None if matches have unbounded length.

    Examples
    --------
    >>> from cepheid.api import query
    >>> (template,) = query("RETURN COUNT(*) PATTERN SEQ(A, B?, C, D)").plan.patterns
    >>> shape_of(template, [["A"], ["C"]]).gaps
    (Gap(least=0, most=0), Gap(least=0, most=1), Gap(least=1, most=1))
    """
    if template.recursive:
        return None
    places = [
        [n for n, state in enumerate(template.states) if state.variable in names]
        for names in symbols
    ]
    ends = [final.state for final in template.finals]
    steps = [_steps(template, [START], places[0])]
    steps += [_steps(template, before, after) for before, after in pairwise(places)]
    gaps = [Gap(gap.least - 1, gap.most - 1) for gap in steps]
    gaps.append(_steps(template, places[-1], ends))
    return Shape(tuple(frozenset(names) for names in symbols), tuple(gaps))


def _steps(template: Template, sources: Sequence[int], targets: Collection[int]) -> Gap:
    """Compute the minimum and maximum number of edges from some states to others."""
    found = {n for n in sources if n in targets}
    lengths = [0] if found else []
    reached = set(sources)
    # Without cycles no path has more edges than there are states.
    for length in range(1, len(template.states) + 1):
        reached = {edge.target for edge in template.edges if edge.source in reached}
        if reached & set(targets):
            lengths.append(length)
    return Gap(min(lengths, default=0), max(lengths, default=BEYOND))
