"""Find the parts of a query that its state depends on, and continue a changed query with it.

HAVING and RETURN are evaluated when rows leave, so they may change as long as the state holds the
numbers that they need: the plan then keeps the accumulators of the state, with its new columns.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cepheid.decoding import from_values
from cepheid.jobs.misfits import misfit
from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.plans.meaning import Meaning, differing, fingerprint, times_of
from cepheid.plans.plan import AggregateColumn, Evaluator, Granularity, OutputKind, TrendPlan

HELD = "what the state adds up"


def meaning_of_trends(plan: TrendPlan) -> Meaning:
    """Collect the parts of a query that shape its state."""
    listing = plan.output.kind
    rules = [plan.links] if plan.links is not None else []
    window = msgspec.structs.replace(plan.window, reason="")
    skip = [] if plan.skip is None else [plan.skip]
    return {
        "the time, the type or the order of events": fingerprint([times_of(plan), plan.ties]),
        "PATTERN": fingerprint([plan.patterns, plan.semantics, *rules, plan.min_length, *skip]),
        "WHERE": fingerprint([plan.local, plan.edges, plan.globals]),
        "GROUP-BY or an equivalence": fingerprint(plan.partition),
        "WITHIN, SLIDE or EMIT": fingerprint(window),
        "NUMBERS": fingerprint(plan.numbers),
        "the kind of RETURN": "aggregates" if listing is OutputKind.AGGREGATES else "matches",
        HELD: fingerprint(parts_of(plan)),
        "the evaluator": fingerprint([plan.choice.evaluator, plan.choice.granularity]),
    }


def memory_of(plan: TrendPlan) -> Any:
    """Describe the query for a changed one that continues with its state."""
    return msgspec.to_builtins(plan.output.aggregates)


def continued_trends(plan: TrendPlan, before: Meaning, memory: Any) -> TrendPlan:
    """Adapt a plan to the state of an earlier query.

    Raises
    ------
    DataError
        E524 if the state does not hold what the query needs.
    """
    held = from_values(memory, tuple[AggregateColumn, ...])
    known = {_key(column) for column in plan.output.aggregates}
    kept = [
        msgspec.structs.replace(column, name=f"held {number}")
        for number, column in enumerate(held)
        if _key(column) not in known
    ]
    order = [_key(column) for column in held]
    both = sorted(
        [*plan.output.aggregates, *kept],
        key=lambda c: order.index(_key(c)) if _key(c) in order else len(order),
    )
    output = msgspec.structs.replace(plan.output, aggregates=tuple(both))
    evaluator, granularity = msgspec.json.decode(before["the evaluator"])
    choice = msgspec.structs.replace(
        plan.choice, evaluator=Evaluator(evaluator), granularity=Granularity(granularity)
    )
    adapted = msgspec.structs.replace(plan, output=output, choice=choice)
    other = differing(before, meaning_of_trends(adapted))
    if other == [HELD]:
        new = next((c for c in plan.output.aggregates if _key(c) not in order), None)
        name = "a value" if new is None else _shown(new)
        why = f"the query needs {name}, which the state does not hold"
        raise misfit(why)
    if other:
        why = f"the state belongs to another query: {other[0]} differs"
        raise misfit(why)
    return adapted


def attributes_of(plan: TrendPlan) -> set[str]:
    """Collect the attributes that only aggregates read."""
    return {c.attribute for c in plan.output.aggregates if c.attribute is not None}


def _key(column: AggregateColumn) -> tuple[str, str | None, str | None, tuple[str, ...]]:
    return column.function, column.variable, column.attribute, column.distinct


def _shown(column: AggregateColumn) -> str:
    place = ".".join(part for part in (column.variable, column.attribute) if part) or "*"
    place = f"DISTINCT {', '.join(column.distinct)}" if column.distinct else place
    return f"`{column.function}({place})`"
