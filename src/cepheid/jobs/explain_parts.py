"""Parts of the explain text that all plans share: partitions and columns."""

from __future__ import annotations

from cepheid.plans.plan import Plan

Section = tuple[str, list[str]]
"""A title, and the lines below it."""


def draw_sections(title: str, sections: list[Section]) -> str:
    """Draw sections as a tree of lines below a title."""
    lines = [title]
    for idx, (name, texts) in enumerate(sections):
        last = idx == len(sections) - 1
        lines.append(f"{'└─' if last else '├─'} {name:<11} {texts[0]}")
        lines += [f"{'   ' if last else '│  '}{'':<11} {text}" for text in texts[1:]]
    return "\n".join(line.rstrip() for line in lines)


def describe_partition(plan: Plan) -> list[str]:
    """Describe how the stream is partitioned, and why."""
    names = ", ".join(plan.partition.attributes)
    return [names or "the whole stream", f"because of {plan.partition.reason}"]


def describe_columns(plan: Plan) -> list[str]:
    """List the columns that are read."""
    return ["all columns"] if plan.columns is None else [", ".join(plan.columns)]
