"""Explain why a MATCH_RECOGNIZE clause finds no or few matches, by counting its prefixes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from cepheid.errors import CepheidError
from cepheid.jobs.why import Condition, Relaxation, Step, WhyNot, amount, number
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.computed import with_derived
from cepheid.kinds.row_pattern.conditions import prepare_conditions
from cepheid.kinds.row_pattern.find import find_all
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.recognize import quest_of


def why_clause(plan: MatchPlan, table: pa.Table, defined: Mapping[str, str]) -> WhyNot:
    """Explain why a clause finds no or few matches; ``defined`` has its conditions as written."""
    found = _count(plan, table) or 0
    sentences = [f"There {'is' if found == 1 else 'are'} {amount(found, 'match')}."]
    if not found:
        sentences = ["There is no match."]
    conditions, partial = _conditions(plan, table, defined)
    steps = _steps(plan, table, found)
    if len(steps) > 1:
        parts = [f"{amount(steps[0].count, 'match')} of {steps[0].text}"]
        parts += [f"{number(step.count)} then {step.text}" for step in steps[1:]]
        sentences.append(f"{', '.join(parts)}.")
    relaxations = tuple(
        Relaxation(text, _count(relaxed, table), "match")
        for text, relaxed in _relaxed(plan, defined).items()
    )
    for one in relaxations:
        if one.count is not None and one.count > found:
            text = one.text[0].upper() + one.text[1:]
            sentences.append(f"{text} there would be {amount(one.count, 'match')}.")
    for one_condition in conditions:
        rest = ", as far as it speaks of its own row" if one_condition.variable in partial else ""
        sentences.append(
            f"{number(one_condition.satisfied)} of {amount(one_condition.events, 'row')} satisfy "
            f"`{one_condition.text}`{rest}."
        )
    return WhyNot(
        unit="match",
        found=found,
        events=len(table),
        steps=steps,
        conditions=conditions,
        relaxations=relaxations,
        notices=(),
        sentences=tuple(sentences),
    )


def _count(plan: MatchPlan, table: pa.Table) -> int | None:
    """Count matches without building rows; None if the search takes too long (E612, E616)."""
    try:
        quest = quest_of(plan, table)
        return sum(int((matches.lengths > 0).sum()) for matches in find_all(quest))
    except CepheidError as error:
        if error.diagnostics[0].code not in ("E607", "E610", "E611", "E612", "E616"):
            raise
        return None


def _steps(plan: MatchPlan, table: pa.Table, found: int) -> tuple[Step, ...]:
    """Count the matches of one part of the pattern more each time; parts may have no row."""
    parts = plan.pattern.parts if isinstance(plan.pattern, tree.Sequence) else (plan.pattern,)
    free = msgspec.structs.replace(plan, skip=tree.Skip(span=plan.skip.span))
    steps = []
    for n in range(1, len(parts)):
        span = parts[0].span.to(parts[n - 1].span)
        prefix = tree.Sequence(span=span, parts=parts[:n])
        count = _count(msgspec.structs.replace(free, pattern=prefix), table)
        if count is not None:
            steps.append(Step(_written(plan, parts[n - 1]), count))
    steps.append(Step(_written(plan, parts[-1]), found))
    return tuple(steps)


def _written(plan: MatchPlan, part: tree.Pattern) -> str:
    return " ".join(plan.text[part.span.start : part.span.end].split())


def _relaxed(plan: MatchPlan, defined: Mapping[str, str]) -> dict[str, MatchPlan]:
    """Leave out one condition at a time, and WITHIN."""
    found = {}
    for variable in plan.conditions:
        kept = {name: one for name, one in plan.conditions.items() if name != variable}
        text = f"without `{variable} AS {defined.get(variable, '…')}`"
        found[text] = msgspec.structs.replace(plan, conditions=kept)
    if plan.within is not None:
        found["without WITHIN"] = msgspec.structs.replace(plan, within=None)
    return found


def _conditions(
    plan: MatchPlan, table: pa.Table, defined: Mapping[str, str]
) -> tuple[tuple[Condition, ...], set[str]]:
    """Count the rows that satisfy each condition; of those about other rows, what is left."""
    rows = ArrangedRows(with_derived(plan, table), plan.partition_by, plan.order_by)
    found, partial = [], set()
    for variable, one in zip(plan.variables, prepare_conditions(plan, rows), strict=True):
        if variable not in plan.conditions:
            continue
        count = len(table) if one.mask is None else int(one.mask.sum())
        text = f"{variable} AS {defined.get(variable, '…')}"
        found.append(Condition(variable, text, len(table), count, len(table) - count))
        if one.rest is not None:
            partial.add(variable)
    return tuple(found), partial
