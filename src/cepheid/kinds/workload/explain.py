"""Describe how a workload shares work, in words and as a tree of lines."""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.kinds.workload.explain_look_back import describe_look_back
from cepheid.kinds.workload.explain_words import (
    list_names,
    name_symbol,
    where_and_what,
)
from cepheid.kinds.workload.look_back_sharing import needs_expiries
from cepheid.kinds.workload.shared_system import UNIT, Node, SharedSystem, merge_vectors
from cepheid.kinds.workload.sharing import Group, Method, SharedPlan
from cepheid.kinds.workload.start_sum_system import summed_system

LINES_MAX = 40
"""Lines of one drawing; the rest is summarised by its number."""

PARTS_MAX = 5


def explain_shared(shared: SharedPlan) -> str:
    """Describe what queries share, and why others do not."""
    count = len(shared.groups) + len(shared.looking)
    number_of = len(shared.names) + len(shared.beside)
    many = f"{number_of} quer{'y' if number_of == 1 else 'ies'}"
    sections = [_describe_group(shared, group) for group in shared.groups]
    sections += [describe_look_back(shared, group) for group in shared.looking]
    reasons: dict[str, list[str]] = {}
    for number in sorted(shared.alone):
        reasons.setdefault(shared.alone[number], []).append(shared.names[number])
    for reason, names in reasons.items():
        lone = [f"alone: {list_names(names)}", f"because: {reason}", _READING]
        sections.append([*lone, *_describe_twins(shared, names)])
    if shared.beside:
        sections.append(_describe_beside(shared))
    lines = [f"workload  {many}, {count} group{'' if count == 1 else 's'}"]
    for number, section in enumerate(sections):
        final = number == len(sections) - 1
        lines.append(f"{'└─' if final else '├─'} {section[0]}")
        lines += [f"{'  ' if final else '│ '} {line}".rstrip() for line in section[1:]]
    return "\n".join(lines)


_READING = "columns, predicates and keys are read once for all queries"


def _describe_twins(shared: SharedPlan, names: list[str]) -> list[str]:
    """Describe queries that run once for several."""
    found: dict[int, list[str]] = {}
    for twin, first in shared.twins.items():
        if shared.names[first] in names:
            found.setdefault(first, [shared.names[first]]).append(shared.names[twin])
    return [
        f"once for all, they differ in RETURN and HAVING: {list_names(n)}" for n in found.values()
    ]


def _describe_beside(shared: SharedPlan) -> list[str]:
    """Describe queries that are no trends."""
    kinds: dict[str, list[str]] = {}
    for name, plan in shared.beside.items():
        what = plan.stages[0].plan.what if len(plan.stages) == 1 else plan.what
        kinds.setdefault(what, []).append(name)
    lines = [f"{what}: {list_names(names)}" for what, names in kinds.items()]
    return ["beside: each with a state of its own, over the same events", *lines]


def _describe_group(shared: SharedPlan, group: Group) -> list[str]:
    names = [shared.names[number] for number in group.members]
    plan, system = group.plan, group.system
    numbers = "numbers" if group.method is Method.VECTOR else "entries"
    lines = [
        f"group of {len(names)}: {list_names(names)}",
        where_and_what(plan, group.parts, group.extremes),
        f"{group.method.value}: {len(system.nodes) - 1:,} {numbers} a key instead of "
        f"{system.before:,}, because numbers with equal inflow are equal",
    ]
    sums = summed_system(group)
    if sums is not None:
        numbers = f"{len(sums.nodes) - 1:,} numbers a key"
        lines.append(f"or sums over all starts, where they cost less: {numbers}")
    if needs_expiries(plan):
        lines.append("rows come when matches end, and when events leave")
    lines += _draw(group, names)
    if group.method is not Method.VECTOR:
        lines += _common_parts(group)
    return lines


def _draw(group: Group, names: list[str]) -> list[str]:
    """Draw the common prefixes as a tree; an arrow points to the query that a node counts for."""
    system = group.system if group.method is Method.VECTOR else merge_vectors(group.cells)
    children: dict[int, list[int]] = {}
    for number, node in enumerate(system.nodes):
        if node.sources:
            first = next((s for s in node.sources if s != number), UNIT)
            # Nodes of a loop refer to each other; the one that was found first comes first.
            parent = first if first < number else UNIT
            children.setdefault(parent, []).append(number)
    ends: dict[int, list[str]] = {}
    for name, outputs in zip(names, system.outputs, strict=True):
        for node_number in outputs:
            ends.setdefault(node_number, []).append(name)
    lines: list[str] = []

    def draw(number: int, indent: str) -> None:
        own = children.get(number, [])
        for place, child in enumerate(own):
            final = place == len(own) - 1
            text = _label(group, system, child)
            if child in ends:
                text += f" → {list_names(ends[child])}"
            lines.append(f"{indent}{'└─' if final else '├─'} {text}")
            draw(child, indent + ("   " if final else "│  "))

    for number in children:
        node = system.nodes[number]
        if not node.sources:
            # Matches that begin behind a NOT have a start of their own.
            lines.append(f"start{_negated(group, node.clears)}")
            draw(number, "")
    if len(lines) > LINES_MAX:
        rest = len(lines) - LINES_MAX
        lines = [*lines[:LINES_MAX], f"… {rest:,} more"]
    return lines


def _label(group: Group, system: SharedSystem, number: int) -> str:
    node: Node = system.nodes[number]
    text = name_symbol(group.symbols[node.symbol])
    text = f"with {text}" if node.once else text
    text += "+" if number in node.sources else ""
    # A negated pattern of several events moves matches on, and ends them at its last event.
    moved = {other.symbol for other in system.nodes if other.once and number in other.sources}
    without = [s for s in node.clears if s not in moved]
    text += _negated(group, without) if group.plan.patterns[0].guards else ""
    return text + (f", {node.shares} queries" if node.shares > 1 else "")


def _negated(group: Group, symbols: Sequence[int]) -> str:
    """Name the events that end what waits behind a NOT; "" if there is none."""
    names = ", ".join(name_symbol(group.symbols[symbol]) for symbol in symbols)
    return f" (not {names})" if names else ""


def _common_parts(group: Group) -> list[str]:
    """Find the longest parts of patterns that several queries share after their prefixes."""
    system = group.system
    inner = {node for (n, r, _), node in system.places.items() if not group.cells[n][r].initial}
    found: list[tuple[int, int, str]] = []
    for number, node in enumerate(system.nodes):
        if node.shares < 2 or number not in inner:
            continue
        path: list[str] = []
        here, seen = number, set[int]()
        while here != UNIT and here not in seen and system.nodes[here].sources:
            seen.add(here)
            path.append(name_symbol(group.symbols[system.nodes[here].symbol]))
            here = next((s for s in system.nodes[here].sources if s != here), UNIT)
        found.append((len(path), node.shares, " → ".join(reversed(path))))
    found.sort(reverse=True)
    shown: list[str] = []
    for length, shares, path_ in found:
        if length > 1 and not any(path_ in longer for longer in shown):
            shown.append(f"common part of {shares}: {path_}")
    return shown[:PARTS_MAX]
