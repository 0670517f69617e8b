"""What a query asks of a runtime: by the kind of its plan."""

from __future__ import annotations

from cepheid.planner.plan import Plan, SituationPlan, trend_plan
from cepheid.planner.situation_needs import needs_of_situations
from cepheid.planner.strategies import Needs
from cepheid.planner.trend_needs import needs_of_trends


def needs_of(plan: Plan) -> Needs:
    """Return what a query with a pattern asks of a runtime."""
    if isinstance(plan, SituationPlan):
        return needs_of_situations(plan)
    return needs_of_trends(trend_plan(plan))
