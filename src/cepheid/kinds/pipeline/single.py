"""Any query as a pipeline of one stage, so that one step function runs every kind of query."""

from __future__ import annotations

from cepheid.kinds.pipeline.keys import common_keys, describe_keys
from cepheid.patterns.scope import DEFAULT_TYPE
from cepheid.plans.plan import (
    BASE_STREAM,
    Choice,
    Evaluator,
    Granularity,
    Partition,
    PipelinePlan,
    Plan,
    SelectPlan,
    StagePlan,
)


def as_pipeline(plan: Plan) -> PipelinePlan:
    """Make a pipeline of a query; one that is a pipeline already stays as it is."""
    if isinstance(plan, PipelinePlan):
        return plan
    stage = StagePlan("", plan, (BASE_STREAM,))  # type: ignore[arg-type]  # any other kind
    keys, why = common_keys([stage])
    choice = Choice(
        evaluator=Evaluator.PIPELINE,
        granularity=Granularity.EVENT,
        reason="it runs beside other queries",
        span=None,
        time=plan.choice.time,
        state=plan.choice.state,
    )
    return PipelinePlan(
        text=plan.text,
        time=plan.time,
        type=plan.type or DEFAULT_TYPE,
        tiebreak=plan.tiebreak,
        tick_ns=plan.tick_ns,
        partition=Partition((), (), keys, describe_keys(keys)),
        choice=choice,
        columns=_columns_of(plan),
        warnings=plan.warnings,
        functions=plan.functions,
        stages=(stage,),
        why_keys=why,
    )


def _columns_of(plan: Plan) -> tuple[str, ...] | None:
    """Collect the columns that a query reads, its time among them; None is all."""
    read: list[tuple[str, ...] | None] = [plan.columns]
    if isinstance(plan, SelectPlan):
        read = [stream.reads for stream in plan.select.streams]
    if None in read:
        return None
    names = (name for columns in read for name in columns or ())
    return tuple(dict.fromkeys([plan.time, *names, *plan.tiebreak]))
