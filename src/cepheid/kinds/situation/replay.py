"""Plan which part of the history a query about situations replays."""

from __future__ import annotations

import numpy as np

from cepheid.plans.plan import SituationPlan
from cepheid.plans.selection import conjuncts_of
from cepheid.store.filter_plan import plan_filter
from cepheid.store.replay_plan import ReplayPlan, full_replay, total_groups
from cepheid.store.snapshot import Cover, Snapshot


def plan_situations(snapshot: Snapshot, plan: SituationPlan, method: str) -> ReplayPlan:
    """Skip the replay if a definition that every match needs has no event, else read everything.

    A match takes a situation of each definition (§9.4); a listed situation is a row (§9.9).
    """
    if method == "replay":
        return full_replay(snapshot, "a full replay is asked for")
    situations = plan.situations
    where = [] if situations.where is None else list(conjuncts_of(situations.where))
    numbers = situations.listed or range(len(situations.definitions))
    needed = [situations.definitions[number] for number in numbers]
    without = []
    relative = {situations.definitions[one.number].name for one in situations.relative}
    for definition in needed:
        if definition.name in relative:
            continue
        conditions = [*where, *conjuncts_of(definition.condition)]
        found = plan_filter(snapshot, conditions, plan.time, method)
        if found.cover is not None and not found.groups:
            without.append(definition.name)
    if not without or (situations.listed and len(without) < len(needed)):
        return full_replay(snapshot, "situations may last across every cut of the time")
    none = np.zeros(0, np.int64)
    reason = f"no event fits {', '.join(without)}"
    return ReplayPlan(Cover(none, none), reason, total=total_groups(snapshot))
