"""The cost of a change of the table to a query, in words."""

from __future__ import annotations

from cepheid.jobs.changes.near import near
from cepheid.jobs.explain_parts import Section, draw_sections
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan


def explain_changes(plan: Plan) -> str:
    """Explain how the rows of a query follow a table that changes (§18.6)."""
    return draw_sections("changes", _sections(plan))


def _sections(plan: Plan) -> list[Section]:
    kind = kind_of(plan)
    key = kind.row_key(plan)
    known = "all of its values: changes are deletes and inserts"
    if key is not None:
        known = ", ".join(key) or "there is one"
    row: Section = ("a row", [f"is known by {known}" if key != () else "there is one"])
    why = kind.why_not_repaired(plan)
    if not why:
        told = "a change replaces a block of events and O(log n) products"
        return [("repair", ["a tree of matrices for every key and pane", told]), row]
    names, reach = near(plan)
    part = "all events" if reach is None else f"events at most {_length(plan, reach)} from a change"
    if names:
        part += f", with its {', '.join(names)}"
    splits = kind.splits(plan)
    keys = () if splits.by_row else tuple(one.inputs[0] for one in splits.splits)
    if keys and not names:
        part += f", of every {', '.join(keys)}, which rows do not show"
    return [("compute anew", [f"before and after, over {part}", f"because {why}"]), row]


def _length(plan: Plan, ticks: int) -> str:
    nanoseconds = ticks * plan.tick_ns
    if nanoseconds >= 1_000_000_000:
        return f"{nanoseconds / 1e9:,g} s"
    return f"{nanoseconds / 1e6:,g} ms" if nanoseconds >= 1000 else f"{nanoseconds} ns"
