"""Sessions: runs of events of a group that are less than a gap apart (§10.9).

A stretch is a part of a session: ``first`` and ``last`` are the times of its first and last event.
Parts of one session are merged whatever the order in which their events came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cepheid.kinds.selection.groups import Codes
    from cepheid.kinds.selection.windows import Stretches


def merge_sessions(part: Stretches, codes: Codes, gap: int) -> tuple[Stretches, Codes]:
    """Merge parts of the same session; return them by group and time, with their groups."""
    order = np.lexsort((part.first, codes))
    first, last, codes, rows = (a[order] for a in (part.first, part.last, codes, part.rows))
    begins = np.flatnonzero(_begins(first, last, codes, gap))
    moments = [moment.take(order).reduced(begins) for moment in part.moments]
    if not len(begins):
        return part._replace(keys=[], moments=moments), codes
    ends = np.maximum.reduceat(last, begins)
    counted = np.add.reduceat(rows, begins)
    merged = part._replace(keys=[], first=first[begins], last=ends, rows=counted, moments=moments)
    return merged, codes[begins]


def _begins(first: Codes, last: Codes, codes: Codes, gap: int) -> NDArray[np.bool_]:
    """Mark the parts that begin a session: nothing of the group before is near enough."""
    ends, ranks = np.unique(last, return_inverse=True)
    # The latest end so far of each group: those of a later group are larger in this numbering.
    latest = np.maximum.accumulate(codes * max(len(ends), 1) + ranks) - codes * max(len(ends), 1)
    found = np.ones(len(first), np.bool_)
    if len(first):
        near = first[1:] - ends[latest[:-1]] < gap
        found[1:] = (codes[1:] != codes[:-1]) | ~near
    return found
