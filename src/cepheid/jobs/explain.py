"""Format a plan as text or Mermaid: a frame around the sections that each kind of plan supplies."""

from __future__ import annotations

from cepheid.errors import render_diagnostics
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan


def explain_plan(plan: Plan, *, spark: bool = False) -> str:
    """Format the plan as a tree of lines; ``spark`` adds how Spark runs it."""
    title, sections = kind_of(plan).describe(plan, spark=spark)
    lines = [f"plan  {title}"]
    for idx, (name, texts) in enumerate(sections):
        last = idx == len(sections) - 1
        lines.append(f"{'└─' if last else '├─'} {name:<11} {texts[0]}")
        lines += [f"{'   ' if last else '│  '}{'':<11} {text}" for text in texts[1:]]
    if plan.warnings:
        lines += ["", render_diagnostics(plan.warnings, plan.text)]
    return "\n".join(line.rstrip() for line in lines)


def explain_mermaid(plan: Plan) -> str:
    """Format a plan as a Mermaid flowchart."""
    return kind_of(plan).mermaid(plan)
