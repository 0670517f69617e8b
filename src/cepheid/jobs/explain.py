"""Format a plan as text or Mermaid: a frame around the sections that each kind of plan supplies."""

from __future__ import annotations

from html import escape

from cepheid.errors import render_diagnostics, visible
from cepheid.jobs.explain_parts import draw_sections
from cepheid.jobs.kind import kind_of
from cepheid.jobs.picture import draw
from cepheid.plans.plan import Plan


def explain_plan(plan: Plan, *, spark: bool = False) -> str:
    """Format the plan as a tree of lines; ``spark`` adds how Spark runs it."""
    title, sections = kind_of(plan).describe(plan, spark=spark)
    drawn = draw_sections(f"plan  {title}", sections)
    if not plan.warnings:
        return drawn
    told = render_diagnostics(plan.warnings, plan.text)
    return "\n".join(line.rstrip() for line in (drawn, "", *told.split("\n")))


def explain_mermaid(plan: Plan) -> str:
    """Format a plan as a Mermaid flowchart."""
    return kind_of(plan).mermaid(plan)


def explain_short(plan: Plan) -> str:
    """Format a plan as two lines of at most 80 columns: the text, and how it is answered."""
    text = visible(" ".join(plan.text.split()))
    title, sections = kind_of(plan).describe(plan, spark=False)
    evaluators = [lines[0] for name, lines in sections if name == "evaluator"]
    return f"{_cut(text, 65)}\n  {_cut(visible(', '.join([title, *evaluators])), 78)}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def explain_html(plan: Plan) -> str:
    """Format a plan as HTML without scripts: the query, its flowchart, and all reasons."""
    title, _ = kind_of(plan).describe(plan, spark=False)
    parts = (
        f"<b>{escape(title)}</b>",
        f"<pre>{escape(plan.text.strip())}</pre>",
        _picture(plan),
        f"<details><summary>plan</summary><pre>{escape(explain_plan(plan))}</pre></details>",
    )
    return f"<div>{''.join(parts)}</div>"


def _picture(plan: Plan) -> str:
    """Draw the automata of a plan, or print the flowchart of a plan without any."""
    drawn = [draw(graph) for graph in kind_of(plan).graphs(plan)]
    if drawn and all(drawn):
        return "<br/>".join(drawn)
    return f"<pre>{escape(explain_mermaid(plan))}</pre>"
