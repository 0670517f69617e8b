"""Which events of a table a change can concern: a plan and its columns in, keys and a reach out.

Rows that are known by all of their values have numbers where several are equal (§18.6). Equal rows
have to be in one part of the table, or their numbers would begin anew in each of them. So a part is
cut by keys, and by times, that rows show; two rows of different parts differ then.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan


class Near(NamedTuple):
    """The keys that events near a change share, and their largest distance; None: unbounded."""

    keys: tuple[str, ...]
    reach: int | None


def near(plan: Plan) -> Near:
    """Choose what may cut the table into parts."""
    kind = kind_of(plan)
    splits, reach = kind.splits(plan), kind.reach(plan)
    keys = () if splits.by_row else tuple(one.inputs[0] for one in splits.splits)
    if kind.row_key(plan) is not None:
        return Near(keys, reach)
    shown = kind.shows(plan)
    return Near(keys if shown.issuperset(keys) else (), reach if plan.time in shown else None)
