"""Find the parts of a pipeline that its state depends on, and continue a changed one with it.

Rows of a stage that feeds others are in the states of these, so nothing that shapes them may
change. The last query changes as a query of its own does: HAVING and RETURN apply to rows that
leave from then on.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cepheid.jobs.kind import kind_of
from cepheid.jobs.misfits import misfit
from cepheid.plans.meaning import Meaning, differing, fingerprint, times_of
from cepheid.plans.plan import PipelinePlan

LAST = "the last query"
ROWS = "SELECT, RETURN or HAVING of "


def meaning_of_pipelines(plan: PipelinePlan) -> Meaning:
    """Collect the parts of all stages that shape their states."""
    rows = {
        f"{ROWS}`{stage.name}`": kind_of(stage.plan).rows_meaning(stage.plan)
        for stage in plan.stages[:-1]
    }
    return states_of_stages(plan) | rows


def states_of_stages(plan: PipelinePlan) -> Meaning:
    """Collect the parts that shape the state of each stage; earlier states have no others."""
    found = {"the time or the order of events": times_of(plan)}
    streams = [(s.name, s.reads, s.times, s.hidden, s.at_end) for s in plan.stages]
    found["the streams"] = fingerprint(streams)
    for stage in plan.stages:
        name = f"`{stage.name}`" if stage.name else LAST
        parts = kind_of(stage.plan).meaning(stage.plan)
        found |= {f"{part} of {name}": text for part, text in parts.items()}
    return found


def continued_pipeline(plan: PipelinePlan, before: Meaning, memory: Any) -> PipelinePlan:
    """Adapt a plan to the state of an earlier pipeline.

    Raises
    ------
    DataError
        E524 if a stage that feeds others has changed, or the state does not hold what the last
        query needs.
    """
    other = _differing(before, plan)
    own = f" of {LAST}"
    if other and all(part.endswith(own) for part in other) and memory is not None:
        last = plan.stages[-1]
        held = {part.removesuffix(own): text for part, text in before.items() if own in part}
        adapted = kind_of(last.plan).continued(last.plan, held, memory)
        stage = msgspec.structs.replace(last, plan=adapted)
        plan = msgspec.structs.replace(plan, stages=(*plan.stages[:-1], stage))
        other = _differing(before, plan)
    if other:
        why = f"the state belongs to another pipeline: {other[0]} differs"
        raise misfit(why)
    return plan


def _differing(before: Meaning, plan: PipelinePlan) -> list[str]:
    """List the parts that differ; earlier states do not tell what shapes the rows of stages."""
    other = differing(before, meaning_of_pipelines(plan))
    return [part for part in other if part in before or not part.startswith(ROWS)]
