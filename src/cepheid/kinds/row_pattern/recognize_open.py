"""A plan and the rows of a stream so far in, the matches that no later row can change out.

The search is that of ``recognize``, with partitions whose ends are open. It goes from start to
start as in a table, and stops in each partition at the first start whose preferred match depends on
rows that have not come yet. Rows from there on are kept, with those before that PREV reaches; so
the next search goes on as if it had seen all rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.kernels.row_pattern import EDGE, FIRST_START, LAST_END, UNDECIDED_START
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import Reach
from cepheid.kinds.row_pattern.recognize import parts_of, quest_of, within_of


class Kept(NamedTuple):
    """Rows of a stream that later matches may need.

    Attributes
    ----------
    rows
        The rows, in the order of their times.
    passed
        Which of them begin no match any more, and are only seen by PREV.
    """

    rows: pa.Table
    passed: NDArray[np.bool_]

    def followed_by(self, new: pa.Table) -> Kept:
        """Add rows that came later."""
        passed = np.concatenate([self.passed, np.zeros(len(new), np.bool_)])
        return Kept(pa.concat_tables([self.rows, new]), passed)


class Settled(NamedTuple):
    """Matches that are certain, the rows to keep, and how many partitions have such rows.

    ``undecided`` counts the partitions in which a match may have begun.
    """

    found: list[pa.Table]
    kept: Kept
    partitions: int
    undecided: int


def recognize_open(plan: MatchPlan, reach: Reach, kept: Kept, until: int | None) -> Settled:
    """Find the matches that no later row can change.

    Parameters
    ----------
    plan
        The clause; it was checked that it can be live.
    reach
        How far it reaches.
    kept
        What was kept before, followed by new rows.
    until
        No row comes before this time any more: microseconds, or a whole number as the column has.
        None if no row comes at all.
    """
    if not len(kept.rows):
        return Settled([], kept, 0, 0)
    quest = quest_of(plan, kept.rows)
    rows, bounds = quest.rows, quest.bounds
    begins, stops = bounds[:-1], bounds[1:]
    passed = kept.passed if rows.order is None else kept.passed[rows.order]
    opened = np.empty((len(begins), 4), np.int64)
    opened[:, FIRST_START] = begins + np.add.reduceat(passed, begins, dtype=np.int64)
    opened[:, EDGE] = stops - (reach.ahead if until is not None else 0)
    opened[:, LAST_END] = stops - (reach.beyond if until is not None else 0)
    opened[:, UNDECIDED_START] = opened[:, FIRST_START]
    limits = _open_limits(plan, rows, quest.limits, until)
    found = list(parts_of(quest._replace(limits=limits, opened=opened)))
    starts = opened[:, UNDECIDED_START]
    left, still = _left(rows, bounds, np.maximum(starts - reach.back, begins), starts)
    after = Kept(kept.rows.take(left), still)
    keeping = np.count_nonzero(starts - reach.back < stops)
    return Settled(found, after, int(keeping), int(np.count_nonzero(starts < stops)))


def _left(
    rows: ArrangedRows, bounds: Rows, kept_from: Rows, starts: Rows
) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the rows of the table from some rows of each partition on, and which are passed."""
    sizes = np.diff(bounds)
    places = np.flatnonzero(np.arange(bounds[-1]) >= np.repeat(kept_from, sizes))
    passed = places < np.repeat(starts, sizes)[places]
    if rows.order is None:
        return places, passed
    # In the order of the table, which is that of time: so they are packed well.
    table_rows = rows.order[places]
    order = np.argsort(table_rows)
    return table_rows[order], passed[order]


def _open_limits(plan: MatchPlan, rows: ArrangedRows, limits: Rows, until: int | None) -> Rows:
    """Move limits at the end of a partition behind it, unless all later rows are too late."""
    ends = np.repeat(rows.bounds[1:], np.diff(rows.bounds))
    if until is None:
        return limits if len(limits) else ends
    if not len(limits):
        return limits
    times, length, (some, of) = within_of(plan, rows)
    at_end = limits == ends
    # Whole numbers stay whole, and exact.
    now = until if some == of else until * some / of
    opened: Rows = limits + (at_end & (now - times < length))
    return opened
