"""What the texts of all plans have in common: partitions and the columns that are read."""

from __future__ import annotations

from cepheid.plans.plan import Plan

Section = tuple[str, list[str]]
"""A title, and the lines below it."""


def describe_partition(plan: Plan) -> list[str]:
    """Return how the stream is cut by value, and why."""
    names = ", ".join(plan.partition.attributes)
    return [names or "the whole stream", f"because of {plan.partition.reason}"]


def describe_columns(plan: Plan) -> list[str]:
    """Return the columns that are read."""
    return ["all columns"] if plan.columns is None else [", ".join(plan.columns)]
