"""Which job takes the micro-batches of a query: by the kind of its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepheid.planner.plan import Plan, RowPatternPlan, SelectPlan, SituationPlan, TrendPlan
from cepheid.runtime.live_row_pattern import LiveRowPattern
from cepheid.runtime.live_select import LiveSelect
from cepheid.runtime.live_situations import LiveSituations
from cepheid.runtime.live_trends import LiveTrends
from cepheid.runtime.microbatch import LiveJob
from cepheid.runtime.work import Work

JOBS: dict[type[Plan], Callable[[Work], LiveJob[Any]]] = {
    TrendPlan: LiveTrends.of,
    SituationPlan: LiveSituations.of,
    SelectPlan: LiveSelect.of,
    RowPatternPlan: LiveRowPattern.of,
}


def live_job(work: Work) -> LiveJob[Any]:
    """Return the job of a query over a stream."""
    return JOBS[type(Plan.from_json(work.plan))](work)
