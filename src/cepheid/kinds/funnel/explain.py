"""Explain the plan of a funnel as text or Mermaid."""

from __future__ import annotations

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.jobs.explain_parts import Section, describe_columns, describe_partition
from cepheid.language import tree
from cepheid.plans.plan import FunnelPlan


def title_of(plan: FunnelPlan) -> str:
    """Describe the rows of the result."""
    each = " of every window" if plan.funnel.slide else ""
    return f"how many {', '.join(plan.funnel.keys)} reach each step{each}"


def describe_funnel(plan: FunnelPlan) -> list[Section]:
    """Build the sections of the plan's text."""
    funnel = plan.funnel
    steps = []
    for number, step in enumerate(funnel.steps, 1):
        where = " AND ".join(format_expression(c) for c in step.conditions)
        name = (
            step.event_type
            if step.event_type == step.variable
            else f"{step.event_type} {step.variable}"
        )
        steps.append(f"{number}  {name}" + (f" where {where}" if where else ""))
    chains = ["a chain takes the first event that fits its next step"]
    if funnel.ties is tree.Ties.STRICT:
        chains.append("equal times never see each other, so times increase strictly")
    if funnel.strict_order:
        chains.append("strict order: an event that is no step so far, nor the next, ends a chain")
    if funnel.deduplicated:
        chains.append("deduplication: a step that comes again ends a chain")
    return [
        ("steps", steps),
        ("chains", chains),
        ("partition", describe_partition(plan)),
        ("window", _window(plan)),
        ("evaluator", [plan.choice.evaluator.value, *_costs(plan)]),
        ("reads", describe_columns(plan)),
    ]


def _window(plan: FunnelPlan) -> list[str]:
    funnel = plan.funnel
    if not funnel.within:
        return [funnel.window_reason]
    length = format_duration(funnel.within * plan.tick_ns // 1000)
    if not funnel.slide:
        return [f"at most {length} from the first step", funnel.window_reason]
    slide = format_duration(funnel.slide * plan.tick_ns // 1000)
    return [f"{length}, sliding by {slide}: chains lie inside a window", funnel.window_reason]


def _costs(plan: FunnelPlan) -> list[str]:
    return [f"time {plan.choice.time}", f"state {plan.choice.state}"]


def mermaid_of(plan: FunnelPlan) -> str:
    """Draw the steps, one after the other."""
    names = [f'{n}["{step.variable}"]' for n, step in enumerate(plan.funnel.steps)]
    return "flowchart LR\n    " + " --> ".join(names)
