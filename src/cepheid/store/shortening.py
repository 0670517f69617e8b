"""Shorten replay intervals to the times that a match can reach from its candidates.

From the distances between the events of a match (``patterns/time_limits.py``) follows, for every
candidate, how far before and after it a match can reach that binds it (Körber, section 3.4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from cepheid.patterns.distances import Gap
from cepheid.patterns.time_limits import UNBOUNDED
from cepheid.store.candidates import Stretches, sorted_stretches
from cepheid.store.replay_intervals import common, merged
from cepheid.store.row_plan import chained
from cepheid.store.snapshot import Cover


class Bounds(NamedTuple):
    """The reach of a match from one of its symbols, and of that symbol from the one before.

    ``before`` and ``after`` are ticks from the start of what must be replayed to the symbol, and
    from it to the end.
    """

    before: int
    after: int
    gap: Gap


def cover_spans(found: Sequence[Stretches], bounds: Sequence[Bounds]) -> Cover:
    """Compute the times that matches can reach from candidates at the required distances."""
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    covers = []
    kept = chained(found, [bound.gap for bound in bounds[1:]])
    for stretches, (before, after, _) in zip(kept, bounds, strict=True):
        some = Stretches(*(times.copy() for times in stretches))
        begins, ends = some.low, some.high
        begins = begins - before if before < UNBOUNDED else np.full_like(begins, low)
        ends = ends + after + 1 if after < UNBOUNDED else np.full_like(ends, high)
        covers.append(merged(*sorted_stretches(begins, ends)))
    return reduce(common, covers)


def bridged(cover: Cover, least: int) -> Cover:
    """Merge intervals with less time between them than a number of ticks."""
    if not len(cover.begins):
        return cover
    apart = cover.begins[1:] - cover.ends[:-1] >= least
    return Cover(cover.begins[np.append(True, apart)], cover.ends[np.append(apart, True)])
