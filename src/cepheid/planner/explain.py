"""Plan in, text or Mermaid out: a frame around the sections that every kind of plan gives."""

from __future__ import annotations

from cepheid.errors import render_diagnostics
from cepheid.planner.explain_parts import Section
from cepheid.planner.explain_select import describe_select, mermaid_of_select, title_of_select
from cepheid.planner.explain_situations import describe_situations, mermaid_of, title_of
from cepheid.planner.explain_spark import describe_strategies
from cepheid.planner.explain_trends import describe_trends, mermaid_of_trends, title_of_trends
from cepheid.planner.needs import needs_of
from cepheid.planner.plan import Plan, SelectPlan, SituationPlan, trend_plan


def explain_plan(plan: Plan, *, spark: bool = False) -> str:
    """Return the plan as a tree of lines, with ``spark`` also how it runs there."""
    title, sections = _describe(plan, spark=spark)
    lines = [f"plan  {title}"]
    for idx, (name, texts) in enumerate(sections):
        last = idx == len(sections) - 1
        lines.append(f"{'└─' if last else '├─'} {name:<11} {texts[0]}")
        lines += [f"{'   ' if last else '│  '}{'':<11} {text}" for text in texts[1:]]
    if plan.warnings:
        lines += ["", render_diagnostics(plan.warnings, plan.text)]
    return "\n".join(line.rstrip() for line in lines)


def _describe(plan: Plan, *, spark: bool) -> tuple[str, list[Section]]:
    """Return what the rows of a plan are, and the sections of its text."""
    match plan:
        case SelectPlan():
            return title_of_select(plan.select), describe_select(plan.select, spark=spark)
        case SituationPlan():
            strategies = [("on Spark", describe_strategies(needs_of(plan)))] if spark else []
            return title_of(plan.situations), describe_situations(plan) + strategies
    trends = trend_plan(plan)
    strategies = [("on Spark", describe_strategies(needs_of(trends)))] if spark else []
    return title_of_trends(trends), describe_trends(trends) + strategies


def explain_mermaid(plan: Plan) -> str:
    """Return a plan as a Mermaid flowchart."""
    match plan:
        case SelectPlan():
            return mermaid_of_select(plan.select)
        case SituationPlan():
            return mermaid_of(plan.situations)
    return mermaid_of_trends(trend_plan(plan))
