"""Describe groups of queries with common edge predicates."""

from __future__ import annotations

from cepheid.expressions.format import format_expression
from cepheid.kinds.workload.explain_words import list_names, name_symbol, where_and_what
from cepheid.kinds.workload.look_back_sharing import LookBackGroup, needs_expiries
from cepheid.kinds.workload.look_back_system import NO_RELATION, Pass, turned
from cepheid.kinds.workload.sharing import SharedPlan

RELATIONS_MAX = 5


def describe_look_back(shared: SharedPlan, group: LookBackGroup) -> list[str]:
    """Describe what queries with common edge predicates share, and why in this direction."""
    names = [shared.names[number] for number in group.members]
    lines = [
        f"group of {len(names)}: {list_names(names)}",
        where_and_what(group.plan, group.parts, group.extremes),
        "events are kept and ranked once for all",
    ]
    if needs_expiries(group.plan):
        lines.append("windows are evaluated when events come, and when events leave")
    used = [_uses(group, number) for number in range(len(group.relations))]
    order = sorted(range(len(used)), key=lambda n: -used[n])
    for number in order[:RELATIONS_MAX]:
        relation = group.relations[number]
        condition = format_expression(group.edges[number].expression)
        lines.append(
            f"{name_symbol(relation.prev)} → {name_symbol(relation.next)} by {condition}, "
            f"{used[number]} quer{'y' if used[number] == 1 else 'ies'}"
        )
    if len(order) > RELATIONS_MAX:
        lines.append(f"… {len(order) - RELATIONS_MAX:,} more")
    for one in group.passes:
        lines += _describe_pass(group, one, [names[n] for n in one.members])
    lines.append("numbers beyond doubles: each query alone")
    return lines


def _uses(group: LookBackGroup, relation: int) -> int:
    """Count the queries that have a relation."""
    return sum(
        any(number == relation for cell in cells for _, number in cell.sources)
        for cells in group.cells
    )


def _describe_pass(group: LookBackGroup, one: Pass, names: list[str]) -> list[str]:
    lanes = len(one.system.looked_up)
    before = sum(
        len(
            {
                source
                for cell in (turned(group.cells[n]) if one.backwards else group.cells[n])
                for source, relation in cell.sources
                if relation != NO_RELATION
            }
        )
        for n in one.members
    )
    way = "backwards" if one.backwards else "forwards"
    alike = "end" if one.backwards else "begin"
    several = f", for {list_names(names)}" if len(group.passes) > 1 else ""
    return [
        f"one pass {way}{several}: {lanes:,} number{'' if lanes == 1 else 's'} an event instead "
        f"of {before:,}, because queries that {alike} alike share"
    ]
