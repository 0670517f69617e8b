"""Find the windows in which a leading NOT keeps rows from beginning a match.

An occurrence that ended before a row lies in a window of this row if it began in it. So the latest
start of all such occurrences decides for all windows at once: those that begin after it are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.trend.look_back.evaluate import latest_of_guards
from cepheid.patterns.segments import Segments, tumbling_segments
from cepheid.plans.template import Template

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.question import Question

NEVER = -(2**62)


def can_bar(question: Question, template: Template) -> bool:
    """Check that the occurrences of negated patterns do not depend on window or sub-partition."""
    listed = frozenset[str]().union(*question.listed)
    return all(
        not guard.template.guards
        and not listed & {state.variable for state in guard.template.states}
        for guard in template.guards
    )


def bars_of(question: Question, template: Template, slide: int) -> NDArray[np.int64]:
    """Compute the first window, by number, in which each event may begin a match in each state.

    Without guards, the result has no states.
    """
    arrays = question.arrays
    if not template.guards:
        return np.zeros((0, len(arrays.ts)), np.int64)
    segments = tumbling_segments(arrays.key, arrays.ts, arrays.bits, 0)
    whole = question._replace(listed=(), codes=(), apart=())
    latest = latest_of_guards(whole, template, segments)
    bars = np.full((len(template.states), len(arrays.ts)), NEVER, np.int64)
    for edge in template.edges:
        for guard in edge.clear:
            rows, times = _starts(segments, arrays.ts, latest[guard], together=question.together)
            free = times // slide + 1
            bars[edge.target, rows] = np.maximum(bars[edge.target, rows], free)
    return bars


def _starts(
    segments: Segments, ts: NDArray[np.int64], latest: NDArray[np.int64], *, together: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the events after an occurrence, and the time when the latest one began."""
    hit = np.flatnonzero(latest >= 0)
    times = ts[segments.rows]
    new = np.ones(len(times), np.bool_)
    if together:
        new[1:] = times[1:] != times[:-1]
    new[segments.ptr[:-1]] = True
    # Orders count the times of a segment, or its rows.
    firsts = np.flatnonzero(new)
    owner = np.searchsorted(segments.ptr, hit, side="right") - 1
    before = np.searchsorted(firsts, segments.ptr[owner])
    return segments.rows[hit], times[firsts[before + latest[hit]]]
