"""Choose the step function of a pattern query by what it returns."""

from __future__ import annotations

import pyarrow as pa

from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.steps import AggregateSteps, MatchSteps, TrendSteps
from cepheid.kinds.trend.survey.steps import SurveySteps


def steps_of(job: Job, schema: pa.Schema) -> TrendSteps:
    """Create the step function of a pattern query."""
    if job.plan.output.survey is not None:
        return SurveySteps(job, schema)
    return MatchSteps(job, schema) if job.plan.lists_matches else AggregateSteps(job, schema)
