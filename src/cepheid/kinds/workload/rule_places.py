"""Choose the buckets of a rule that comes to a running stream.

Events go to buckets by the *keys* of the stream, lists of attributes that stay with its checkpoint,
and all of them to one bucket, the last. A rule runs where all events of a group, and all alerts
that one limit counts, are in one bucket: at the most attributes of which that is true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from cepheid.jobs.kind import kind_of, needs_of
from cepheid.plans.limits import Limit
from cepheid.plans.plan import PipelinePlan, Plan

Keys = tuple[tuple[str, ...], ...]
"""The lists of attributes by which events go to buckets; the last list is empty."""


class Freedom(NamedTuple):
    """The attributes by which a rule can be split; None if any attribute will do."""

    attributes: frozenset[str] | None
    keys: tuple[str, ...]
    """The columns of rows that hold the key."""

    def place(self, keys: Keys) -> int:
        """Choose the place of a rule among the keys of a stream."""
        fits = [n for n, one in enumerate(keys) if self._fits(one)]
        return max(fits, key=lambda n: (len(keys[n]), -n))

    def _fits(self, attributes: Collection[str]) -> bool:
        return self.attributes is None or self.attributes.issuperset(attributes)


def freedom_of(plan: Plan, limits: Iterable[Limit | None]) -> Freedom:
    """Find by which attributes a rule with limits of alerts can be split."""
    last = plan.stages[-1].plan if isinstance(plan, PipelinePlan) else plan
    simple = not isinstance(plan, PipelinePlan) or len(plan.stages) == 1
    splits = kind_of(last).splits(last)
    shown = {one.inputs[0]: one.outputs for one in splits.splits if len(one.inputs) == 1}
    keys = () if splits.by_row else tuple(names[0] for names in shown.values() if names)
    attributes = frozenset(needs_of(plan).buckets)
    counted = [set(limit.by) for limit in limits if limit is not None]
    if simple and splits.by_row:
        if not counted:
            return Freedom(None, keys)
        attributes = frozenset(shown)
    if counted:
        held = shown if simple else {}
        attributes = frozenset(
            name
            for name in attributes
            if all(by.intersection(held.get(name, ())) for by in counted)
        )
    return Freedom(attributes, keys)


def keys_for(rules: Sequence[Freedom]) -> Keys:
    """Choose the keys of a new stream: those of its first rules, without others that they imply."""
    wanted = {tuple(sorted(one.attributes)) for one in rules if one.attributes}
    least = [one for one in wanted if not any(set(other) < set(one) for other in wanted)]
    return (*sorted(least), ())
