"""Which events of a table a change can concern: a plan and its columns in, keys and a reach out.

Rows that are known by all of their values have numbers where several are equal (§18.6). Equal rows
have to be in one part of the table, or their numbers would begin anew in each of them. So a part is
cut by keys, and by times, that rows show; two rows of different parts differ then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan

_WHOLE = "events"
"""The column of matches that shows whole events."""
_TIMES = ("window_start", "te")
"""Columns of windows, and of situations, that show a time."""


class Near(NamedTuple):
    """The keys that events near a change share, and their largest distance; None: unbounded."""

    keys: tuple[str, ...]
    reach: int | None


def near(plan: Plan, columns: Iterable[str]) -> Near:
    """Choose what may cut the table into parts, given the columns of rows."""
    kind = kind_of(plan)
    splits, reach = kind.splits(plan), kind.reach(plan)
    keys = () if splits.by_row else tuple(one.inputs[0] for one in splits.splits)
    shown = kind.shows(plan, columns)
    if kind.row_key(plan) is not None or _WHOLE in shown:
        return Near(keys, reach)
    return Near(
        keys if shown.issuperset(keys) else (),
        None if shown.isdisjoint((*_TIMES, plan.time)) else reach,
    )
