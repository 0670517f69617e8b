"""Find the queries of a sweep that differ in conditions between neighbours alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cepheid.kinds.trend.planning.granularity import looks_back
from cepheid.plans.plan import Evaluator, FunnelPlan, TrendPlan, WindowKind

OF_TIME = (WindowKind.NONE, WindowKind.TUMBLING, WindowKind.SLIDING)


def same_events(plans: Sequence[TrendPlan | FunnelPlan]) -> list[list[int]]:
    """Group the plans that differ in conditions between neighbours alone, by their numbers."""
    groups: dict[bytes, list[int]] = {}
    for number, plan in enumerate(plans):
        if isinstance(plan, TrendPlan) and _takes(plan):
            choice = msgspec.structs.replace(plan.choice, reason="")
            rest = msgspec.structs.replace(plan, edges=(), choice=choice, warnings=())
            groups.setdefault(msgspec.msgpack.encode(rest), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _takes(plan: TrendPlan) -> bool:
    if plan.lists_matches or plan.output.survey is not None or plan.skip is not None:
        return False
    if plan.choice.evaluator is Evaluator.ENUMERATE or plan.window.kind not in OF_TIME:
        return False
    return looks_back(plan) and not plan.has_deadlines and not plan.sees_neighbours
