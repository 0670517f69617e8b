"""Convert local predicates to Spark columns, so that Catalyst drops events before Python sees them.

An event that fits no variable of the pattern is irrelevant, except where it breaks contiguous
matches or counts for windows of events. Predicates without an exact counterpart in Spark are left
to the engine, which checks every event that arrives: a filter may keep too much, never too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as sf

from cepheid.events.comparisons import COMPARE
from cepheid.events.schema import ValueKind
from cepheid.jobs.kind import task_kind
from cepheid.kinds.trend.planning.needs import drops_events
from cepheid.language import tree
from cepheid.patterns.symbols import types_of
from cepheid.plans.plan import Plan, TrendPlan

Lookup = Mapping[str, tuple[Column, ValueKind]]
"""Columns of a DataFrame by their names in the query."""

_NUMBERS = (ValueKind.INTEGER, ValueKind.DOUBLE)


def event_filter(plan: Plan, columns: Lookup) -> Column | None:
    """Build a condition that every relevant event meets; None if there is none."""
    conditions = [columns[name][0].isNotNull() for name in plan.partition.attributes]
    fits = task_kind(plan).fits(plan, columns)
    conditions += [fits] if fits is not None else []
    return reduce(lambda a, b: a & b, conditions) if conditions else None


def fits_a_variable(plan: TrendPlan, columns: Lookup) -> Column | None:
    """Build a condition for events that fit a variable; None if other events matter too."""
    if not drops_events(plan):
        return None
    alternatives: list[Column] = []
    for variable, event_type in types_of(plan.patterns).items():
        parts: list[Column] = []
        kinds = columns[plan.type][1] if plan.type and event_type != tree.ANY_TYPE else None
        if plan.type and kinds in (ValueKind.TEXT, ValueKind.INTEGER):
            parts.append(columns[plan.type][0].cast("string") == sf.lit(event_type))
        for predicate in plan.local:
            if predicate.variable in (None, variable):
                condition = _condition(predicate.expression, columns)
                parts += [condition] if condition is not None else []
        if not parts:
            return None
        alternatives.append(reduce(lambda a, b: a & b, parts))
    return reduce(lambda a, b: a | b, alternatives)


def _condition(expression: tree.Expression, columns: Lookup) -> Column | None:
    """Convert a predicate to a column; None if Spark might evaluate it differently."""
    match expression:
        case tree.Binary(operator=operator, left=left, right=right) if operator in COMPARE:
            sides = [_value(side, columns) for side in (left, right)]
            if sides[0] is None or sides[1] is None:
                return None
            kinds = {kind for _, kind in (sides[0], sides[1])}
            if kinds == set(_NUMBERS) and not isinstance(left, tree.Literal):
                # Spark rounds integers to doubles; beside a small one this makes no difference.
                kinds = kinds if isinstance(right, tree.Literal) else {ValueKind.OTHER}
            if kinds <= set(_NUMBERS) or kinds == {ValueKind.TEXT}:
                return COMPARE[operator](sides[0][0], sides[1][0])  # type: ignore[no-any-return]
            return None
        case tree.Logical(operator=operator, operands=operands):
            parts = [_condition(operand, columns) for operand in operands]
            known = [part for part in parts if part is not None]
            if operator == "AND":
                return reduce(lambda a, b: a & b, known) if known else None
            whole = len(known) == len(parts)
            return reduce(lambda a, b: a | b, known) if whole else None
        case tree.IsNull(operand=operand, negated=negated):
            value = _value(operand, columns)
            if value is None:
                return None
            return value[0].isNotNull() if negated else value[0].isNull()
    return None


def _value(expression: tree.Expression, columns: Lookup) -> tuple[Column, ValueKind] | None:
    match expression:
        case tree.Attribute(attribute=name) if name.text in columns:
            return columns[name.text]
        case tree.Literal(value=str() as text):
            return sf.lit(text), ValueKind.TEXT
        case tree.Literal(value=bool() | None):
            return None
        case tree.Literal(value=int() as number) if abs(number) < 2**53:
            return sf.lit(number), ValueKind.INTEGER
        case tree.Literal(value=float() as number) if abs(number) < 2**53:
            return sf.lit(number), ValueKind.DOUBLE
    return None
