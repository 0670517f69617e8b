"""Plan which part of the history a query about situations reads.

A situation lies where its condition can hold, which the indexes tell, and ends with the next event
of its partition after that. There are two ways to read no more than that:

- *until all have ended*: the events where some definition can hold, and what follows until no
  situation goes on. Nothing happens in the gaps: no condition holds there, and none has to end.
- *near each other*: with WITHIN, all situations of a match are near one of each definition. So the
  surroundings of the rare ones are read, each on its own, whatever else goes on outside. A
  situation that begins with the first event of its partition may have begun before; then more is
  read (``from_store``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

import numpy as np

from cepheid.language import tree
from cepheid.plans.plan import SituationPlan
from cepheid.plans.selection import conjuncts_of
from cepheid.store.filter_plan import FilterPlan, plan_filter
from cepheid.store.replay_intervals import common, merged
from cepheid.store.replay_plan import (
    SAVED_MIN,
    ReplayPlan,
    count_groups,
    full_replay,
    total_groups,
)
from cepheid.store.snapshot import Cover, Snapshot
from cepheid.store.times import Times

LASTS = "situations may last across every cut of the time"


class Way(StrEnum):
    """The way to read a part of the history."""

    UNTIL_ENDED = "until ended"
    NEAR = "near"


class Lookup(NamedTuple):
    """A replay plan, the way to read, and the definitions whose situations matter."""

    replay: ReplayPlan
    way: Way | None
    needed: tuple[int, ...]


def plan_situations(snapshot: Snapshot, plan: SituationPlan, method: str) -> ReplayPlan:
    """Plan which part of a store a query reads; only this process can read a part of it."""
    return look_up_situations(snapshot, plan, method).replay


def look_up_situations(snapshot: Snapshot, plan: SituationPlan, method: str) -> Lookup:
    """Choose the way that reads the fewest row groups.

    A match takes a situation of each definition (§9.4); a listed situation is a row (§9.9).
    """
    situations = plan.situations
    needed = situations.listed or tuple(range(len(situations.definitions)))
    if method == "replay":
        return Lookup(full_replay(snapshot, "a full replay is asked for"), None, needed)
    found = [_where(snapshot, plan, number, method) for number in needed]
    names = [situations.definitions[number].name for number in needed]
    total = total_groups(snapshot)
    without = [n for n, own in zip(names, found, strict=True) if _is_nowhere(own)]
    if without and not (situations.listed and len(without) < len(needed)):
        none = np.zeros(0, np.int64)
        reason = f"no event fits {', '.join(without)}"
        return Lookup(ReplayPlan(Cover(none, none), reason, total=total), None, needed)
    ways = []
    if plan.tiebreak:
        return Lookup(full_replay(snapshot, LASTS), None, needed)
    for way, cover in (
        (Way.UNTIL_ENDED, _until_ended(snapshot, plan, found)),
        (Way.NEAR, _near(plan, found)),
    ):
        if cover is not None:
            cover = _whole_groups(snapshot, cover)
            ways.append((count_groups(snapshot, cover), way, cover))
    if not ways:
        return Lookup(full_replay(snapshot, LASTS), None, needed)
    groups, way, cover = min(ways, key=lambda own: own[0])
    if total and groups >= SAVED_MIN * total and method == "auto":
        why = f"{LASTS}, and conditions may hold in most blocks"
        return Lookup(full_replay(snapshot, why), None, needed)
    replay = ReplayPlan(
        cover,
        _reason(way, names, found),
        expected=float(groups),
        groups=groups,
        total=total,
        apart=True,
    )
    return Lookup(replay, way, needed)


def _reason(way: Way, names: Sequence[str], found: Sequence[FilterPlan]) -> str:
    pairs = zip(names, found, strict=True)
    known = [f"{name} ({own.reason})" for name, own in pairs if own.cover is not None]
    if way is Way.UNTIL_ENDED:
        return f"only there can {' or '.join(known)} hold; read on until all situations have ended"
    return f"only near {' and '.join(known)} can a match be, by WITHIN"


def _where(snapshot: Snapshot, plan: SituationPlan, number: int, method: str) -> FilterPlan:
    """Find where a situation may begin, or have its events; ``cover`` is None for anywhere."""
    situations = plan.situations
    definition = situations.definitions[number]
    conditions = list(conjuncts_of(definition.condition))
    own = [relative for relative in situations.relative if relative.number == number]
    outside = {use.column for relative in own for use in relative.uses}
    # The columns of PREV and aggregates are no columns of the store.
    conditions = [part for part in conditions if not outside & names_in(part)]
    if situations.where is not None:
        conditions += conjuncts_of(situations.where)
    return plan_filter(snapshot, conditions, plan.time, method)


def _is_nowhere(found: FilterPlan) -> bool:
    return found.cover is not None and not found.groups


def _until_ended(
    snapshot: Snapshot, plan: SituationPlan, found: Sequence[FilterPlan]
) -> Cover | None:
    """Find where any situation that matters may begin; None if anywhere."""
    covers = [own.cover for own in found if own.cover is not None]
    previous = any(u.function == "PREV" for r in plan.situations.relative for u in r.uses)
    alone = not plan.partition.attributes and plan.situations.where is None
    if len(covers) < len(found) or (previous and not alone):
        return None
    begins = np.concatenate([cover.begins for cover in covers])
    ends = np.concatenate([cover.ends for cover in covers])
    if previous:
        begins = _events_before(snapshot, begins)
    return merged(begins, ends)


def _near(plan: SituationPlan, found: Sequence[FilterPlan]) -> Cover | None:
    """Find where matches may be, from those definitions that are not everywhere."""
    situations = plan.situations
    covers = [own.cover for own in found if own.cover is not None]
    bounded = bool(situations.constraints) and situations.within is not None
    if not covers or not bounded or situations.relative:
        return None
    return reduce(common, [_wider(cover, situations.within or 0) for cover in covers])


def _wider(cover: Cover, by: int) -> Cover:
    low, high = np.iinfo(np.int64).min + by, np.iinfo(np.int64).max - by - 1
    return merged(np.maximum(cover.begins, low) - by, np.minimum(cover.ends, high) + by + 1)


def names_in(condition: tree.Expression) -> set[str]:
    """Collect the attributes that a condition reads."""
    nodes = tree.walk(condition)
    return {node.attribute.text for node in nodes if isinstance(node, tree.Attribute)}


class Groups(NamedTuple):
    """The first times of all row groups of a store, and their last times, each sorted."""

    first: Times
    last: Times

    @staticmethod
    def of(snapshot: Snapshot, cover: Cover) -> Groups:
        """Find the row groups that may have events in ranges of time."""
        found = [snapshot.groups_in(segment, cover) for segment in snapshot.manifest.segments]
        none = np.zeros(0, np.int64)
        first = np.concatenate([none, *(own[1] for own in found)])
        last = np.concatenate([none, *(own[2] for own in found)])
        return Groups(first, last)


def _whole_groups(snapshot: Snapshot, cover: Cover) -> Cover:
    """Extend ranges to whole row groups, which are read anyway."""
    cover = snapshot.clip_cover(cover)
    first, last = Groups.of(snapshot, cover)
    # Between two row groups of one range there may be time without events.
    begins = np.concatenate([cover.begins, first])
    return merged(begins, np.concatenate([cover.ends, last + 1]))


def _events_before(snapshot: Snapshot, begins: Times) -> Times:
    """Find for some times an event before, with no event but those after it in between."""
    none = np.zeros(0, np.int64)
    segments = snapshot.manifest.segments
    last = np.sort(np.concatenate([none, *(snapshot.blocks(s).last for s in segments)]))
    place = np.searchsorted(last, begins, side="left") - 1
    found: Times = np.where(place >= 0, last[np.maximum(place, 0)], begins) if len(last) else begins
    return found
