"""Match sequences step by step: partial matches are rows of a dense array of events.

All partial matches of a step look for their next events at once: under skip-till-any-match every
later event that fits, under skip-till-next-match the first one, under contiguous the next event
only. A step with Kleene plus takes further events in the same way, until none is left.

Source: Körber, "Accelerating Event Stream Processing in On- and Offline Systems", section 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.thesis_operators.operators import (
    ONE_THREAD,
    Bounds,
    Predicate,
    Rows,
    Work,
    filter_events,
    first_partners,
    join,
)
from numpy.typing import NDArray

ANY, NEXT, CONTIGUOUS = "any", "next", "contiguous"
MATCHES_MAX = 1 << 24
"""Partial matches of one step, by default."""


class Step(NamedTuple):
    """One step of a sequence.

    Attributes
    ----------
    predicate
        Of the first step ``(columns, row)``; of others ``(columns, last, columns, row)``, where
        ``last`` is the event that the match took before.
    plus
        Whether the step may take several events; the first step may not.
    """

    predicate: Predicate
    plus: bool = False


def match(
    columns: NDArray[Any], times: Rows, steps: Sequence[Step], *, semantics: str = ANY,
    within: int | None = None, limit: int = MATCHES_MAX, work: Work = ONE_THREAD,
) -> list[Rows]:  # fmt: skip
    """Find the matches of a sequence; returns for every length an array (match, event).

    Parameters
    ----------
    columns, times
        The events, in the order of time.
    semantics
        ``"any"``, ``"next"`` or ``"contiguous"``.
    within
        A match lasts less than this.
    limit
        Partial matches of one step.

    Raises
    ------
    ValueError
        If a step before the last has Kleene plus under skip-till-next-match: which event is next
        would then depend on two steps; or if a step has more partial matches than the limit.
    """
    if semantics == NEXT and any(step.plus for step in steps[:-1]):
        message = "under skip-till-next-match only the last step may have Kleene plus"
        raise ValueError(message)
    # A match that began at an event may take events before this one.
    ends = np.full(len(times), len(times), np.int64)
    if within is not None:
        ends = np.searchsorted(times, times + within).astype(np.int64)
    waiting = {1: filter_events(columns, steps[0].predicate, work)[:, None]}
    _check(waiting, limit)
    for step in steps[1:]:
        grown: dict[int, Rows] = {}
        for length, partial in waiting.items():
            found = extend(columns, partial, ends, step.predicate, semantics, work)
            while len(found):
                length += 1  # noqa: PLW2901, RUF100
                _add(grown, length, found)
                _check(grown, limit)
                if not step.plus:
                    break
                found = extend(columns, found, ends, step.predicate, semantics, work)
        waiting = grown
    return [waiting[length] for length in sorted(waiting)]


def extend(
    columns: NDArray[Any], partial: Rows, ends: Rows, predicate: Predicate, semantics: str,
    work: Work,
) -> Rows:  # fmt: skip
    """Extend partial matches by one event."""
    last = np.ascontiguousarray(partial[:, -1])
    high = ends[partial[:, 0]]
    if semantics == CONTIGUOUS:
        high = np.minimum(high, last + 2)
    bounds = Bounds(last + 1, np.maximum(high, last + 1))
    if semantics == ANY:
        probe, event = join(columns, columns, bounds, predicate, work, last)
    else:
        partner = first_partners(columns, columns, last, bounds, predicate, work)
        probe = np.flatnonzero(partner >= 0)
        event = partner[probe]
    return np.hstack([partial[probe], event[:, None]])


def _add(found: dict[int, Rows], length: int, rows: Rows) -> None:
    found[length] = np.vstack([found[length], rows]) if length in found else rows


def _check(found: dict[int, Rows], limit: int) -> None:
    total = sum(map(len, found.values()))
    if total > limit:
        message = f"{total:,} partial matches of one step are more than {limit:,}"
        raise ValueError(message)
