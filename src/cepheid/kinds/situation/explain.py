"""Format the plan of a query about situations as text or Mermaid, every choice with its reason."""

from __future__ import annotations

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.jobs.explain_parts import Section, describe_columns, describe_partition
from cepheid.kinds.situation.detection import explain_detection
from cepheid.language import tree
from cepheid.language.formatter import relation_words
from cepheid.plans.plan import SituationPlan
from cepheid.plans.situations import (
    RelativeDefinition,
    SituationConstraint,
    SituationDefinition,
    Situations,
    relations_of,
)


def title_of(situations: Situations) -> str:
    """Describe the rows of the result."""
    if situations.listed:
        names = ", ".join(situations.definitions[n].name for n in situations.listed)
        return f"the situations {names}"
    return ", ".join(column.name for column in situations.columns) + " of every match"


def describe_situations(plan: SituationPlan) -> list[Section]:
    """Build the sections of the plan's text."""
    common = [("partition", describe_partition(plan)), ("reads", describe_columns(plan))]
    return _describe_own(plan) + common


def _describe_own(plan: SituationPlan) -> list[Section]:
    situations = _in_microseconds(plan.situations, plan.tick_ns)
    sections: list[Section] = [("situations", _definitions(situations))]
    if situations.where is not None:
        sections.append(("events", [f"where {_text(situations.where)}"]))
    if situations.listed:
        sections.append(("reported", ["when a situation has ended; its end is known only then"]))
        return sections
    constraints = [_constraint(situations.definitions, c) for c in situations.constraints]
    sections.append(("pattern", constraints))
    sections.append(("detection", _detection(situations)))
    sections.append(("window", _window(situations)))
    sections.append(("join order", _orders(situations)))
    return sections


def _in_microseconds(situations: Situations, tick_ns: int) -> Situations:
    """Convert the lengths of a plan to microseconds, for display."""

    def microseconds(ticks: int | None) -> int | None:
        return None if ticks is None else ticks * tick_ns // 1000

    definitions = tuple(
        msgspec.structs.replace(
            d, at_least=microseconds(d.at_least) or 0, at_most=microseconds(d.at_most)
        )
        for d in situations.definitions
    )
    within = microseconds(situations.within)
    return msgspec.structs.replace(situations, definitions=definitions, within=within)


def _definitions(situations: Situations) -> list[str]:
    lines = []
    for number, definition in enumerate(situations.definitions):
        length = _length(definition)
        relative = next((r for r in situations.relative if r.number == number), None)
        lines.append(f"{definition.name}: {_whole(definition.condition, relative)}{length}")
    return lines


def _length(definition: SituationDefinition) -> str:
    """Describe the bounds of a situation, in time and in events, and when it fits them."""
    least, most = definition.at_least, definition.at_most
    fewest, largest = definition.least_events, definition.most_events
    parts = []
    if most is not None:
        parts.append(
            f"{f'{format_duration(least)} to' if least else 'at most'} {format_duration(most)}"
        )
    elif least:
        parts.append(f"at least {format_duration(least)}")
    if largest is not None:
        parts.append(f"{f'{fewest} to' if fewest else 'at most'} {largest} events")
    elif fewest > 1:
        parts.append(f"at least {fewest} events")
    if not parts:
        return ""
    usable = "once it has both" if len(parts) > 1 else "once it has lasted that long"
    if definition.has_most:
        usable = "when it has ended"
    elif not least:
        usable = "once it has as many"
    return f", {' and '.join(parts)}: usable {usable}"


def _whole(condition: tree.Expression, relative: RelativeDefinition | None) -> str:
    """Format a condition with what it asks beyond its event, and what ends it (§9.10)."""
    if relative is None:
        return _text(condition)
    parts = [condition, *([relative.until] if relative.until is not None else [])]
    text = " UNTIL ".join(map(_text, parts))
    for use in relative.uses:
        text = text.replace(f"`{use.column}`", use.column)
    return text


def _text(condition: tree.Expression) -> str:
    """Format a condition as the user wrote it, without the situation's name."""

    def plain(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            return tree.Word(span=node.span, text=node.attribute.text)
        return node

    return format_expression(tree.transform(condition, plain))


def _constraint(
    definitions: tuple[SituationDefinition, ...], constraint: SituationConstraint
) -> str:
    left, right = definitions[constraint.left].name, definitions[constraint.right].name
    relations = ";".join(relation_words(relations_of(constraint.mask)))
    return f"{left} {relations or '(nothing)'} {right}"


def _detection(situations: Situations) -> list[str]:
    lines = []
    for constraint in situations.constraints:
        lines.append(_constraint(situations.definitions, constraint))
        lines += [f"  {line}" for line in explain_detection(situations.definitions, constraint)]
    points = []
    for definition, triggers in zip(situations.definitions, situations.triggers, strict=True):
        points += [f"{definition.name}.ts"] if triggers.start else []
        if triggers.lasted:
            points.append(_enough(definition))
        points += [f"{definition.name}.te"] if triggers.end else []
    lines.append(f"a match is looked for at {', '.join(points)}")
    if situations.within is not None and not situations.early:
        lines.append("but not before every situation has ended: WITHIN reaches to the last end,")
        lines.append("  which is not known earlier; DETECTED WITHIN reaches to the detection")
    return lines


def _enough(definition: SituationDefinition) -> str:
    """Name the time at which a situation is long enough."""
    parts = []
    if definition.at_least:
        parts.append(f"{definition.name}.ts + {format_duration(definition.at_least)}")
    if definition.least_events > 1:
        parts.append(f"event {definition.least_events} of {definition.name}")
    return parts[0] if len(parts) == 1 else f"the later of {' and '.join(parts)}"


def _window(situations: Situations) -> list[str]:
    if situations.within is None:
        return ["none: all situations are kept"]
    length = format_duration(situations.within)
    end = "the detection" if situations.early else "the last end"
    return [f"{length} from the first start to {end}; older situations are dropped"]


def _orders(situations: Situations) -> list[str]:
    lines = []
    for number, order in enumerate(situations.orders):
        triggers = situations.triggers[number]
        if triggers.start or triggers.lasted or triggers.end:
            chain = [situations.definitions[n].name for n in (number, *order)]
            lines.append(" ⨝ ".join(chain))
    lines.append("least partial matches by the usual share of each relation; adapted while running")
    return lines


def mermaid_of(situations: Situations) -> str:
    """Draw the situations and their constraints as a flowchart."""
    lines = ["flowchart LR"]
    for number, definition in enumerate(situations.definitions):
        condition = _text(definition.condition).replace('"', "#quot;")
        lines.append(f'    s{number}["{definition.name}: {condition}"]')
    for constraint in situations.constraints:
        relations = "; ".join(relation_words(relations_of(constraint.mask)))
        lines.append(f'    s{constraint.left} ---|"{relations}"| s{constraint.right}')
    return "\n".join(lines)
