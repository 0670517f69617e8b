"""A bound clause in, what of a table it needs out: rows that every match has, and how far it looks.

A match depends on its own rows and on those that PREV and NEXT reach. So a part of the table that
holds them all gives the same match, if nothing else can match there because rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cepheid.events.comparisons import MIRRORED
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.conditions import conjuncts
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.patterns import distances
from cepheid.patterns.distances import Shape
from cepheid.patterns.thresholds import Constant, Threshold

EXACT_MAX = 1 << 52
"""Whole numbers up to here are doubles, and compare alike as both."""


class Needs(NamedTuple):
    """The rows that every match contains and looks at.

    Attributes
    ----------
    shape
        The rows that every match has, in order, and how far they are apart.
    thresholds
        What the row of a variable must be.
    margin
        How many rows beyond its own a match looks at.
    whole
        Why rows must not be left out though no match has them; empty if they may.
    numbered
        Whether matches are counted.
    """

    shape: Shape
    thresholds: dict[str, tuple[Threshold, ...]]
    margin: int
    whole: str
    numbered: bool


def needs_of(plan: MatchPlan) -> Needs:
    """Collect the columns and rows that a clause reads."""
    thresholds = {
        name: tuple(
            found
            for found in read_thresholds(plan.conditions.get(name), name)
            if found.attribute in plan.columns
        )
        for name in plan.variables
    }
    shape = _shape(plan.pattern)
    if plan.shows_unmatched:
        shape = distances.rows(shape.length)
    expressions = [*plan.conditions.values(), *(measure for _, measure in plan.measures)]
    return Needs(
        shape,
        thresholds,
        max((abs(shift) for e in expressions for shift in _shifts(e)), default=0),
        _why_whole(plan, shape),
        any(tree.contains(e, tree.MatchNumber) for e in expressions),
    )


def _why_whole(plan: MatchPlan, shape: Shape) -> str:
    if plan.shows_unmatched:
        return "rows without a match are shown too"
    if not shape.length.least:
        return "a match may have no row"
    if _anchored(plan.pattern):
        return "`^` and `$` are the ends of a partition"
    if not all(_misses_less(condition) for condition in plan.conditions.values()):
        return "a condition may hold where PREV or NEXT finds no row"
    return ""


def _shape(pattern: tree.Pattern) -> Shape:
    match pattern:
        case tree.Variable(name=name):
            return distances.symbol(name)
        case tree.Sequence(parts=parts):
            return distances.follow([_shape(part) for part in parts])
        case tree.Alternation(parts=parts):
            return distances.either([_shape(part) for part in parts])
        case tree.Permutation(parts=parts):
            return distances.in_any_order([_shape(part) for part in parts])
        case tree.Exclusion(part=part):
            return _shape(part)
        case tree.Quantified(part=part, least=least, most=most):
            return distances.repeat(_shape(part), least, most)
    return distances.rows(distances.NO_ROWS)


def _anchored(pattern: tree.Pattern) -> bool:
    match pattern:
        case tree.Anchor():
            return True
        case tree.Sequence(parts=parts) | tree.Alternation(parts=parts):
            return any(_anchored(part) for part in parts)
        case tree.Permutation(parts=parts):
            return any(_anchored(part) for part in parts)
        case tree.Exclusion(part=part) | tree.Quantified(part=part):
            return _anchored(part)
    return False


def _shifts(node: tree.Expression) -> Iterator[int]:
    return (part.navigation.shift for part in tree.walk(node) if isinstance(part, tree.Cell))


def _misses_less(node: tree.Expression) -> bool:
    """Check whether a condition never becomes true because PREV or NEXT finds no row.

    Comparisons, arithmetic and logic give the same or NULL if a value is NULL. Other expressions
    may do anything.
    """
    if not any(_shifts(node)) or isinstance(node, tree.Cell):
        return True
    strict = isinstance(node, tree.Unary | tree.Logical | tree.InList | tree.Like)
    strict |= isinstance(node, tree.Binary) and node.operator != "DISTINCT"
    return strict and all(_misses_less(child) for child in tree.children(node))


# ---------------------------------------------------------------------------------------
# Thresholds


def read_thresholds(condition: tree.Expression | None, variable: str) -> Iterator[Threshold]:
    """Yield the parts of a condition that compare a column of the row itself with constants."""
    for part in conjuncts(condition) if condition is not None else ():
        found = None
        match part:
            case tree.Binary(operator=operator, left=left, right=right) if operator in MIRRORED:
                found = _compared(left, operator, [right], variable)
                found = found or _compared(right, MIRRORED[operator], [left], variable)
            case tree.InList(operand=operand, items=items, negated=False):
                found = _compared(operand, "=", items, variable)
        if found is not None:
            yield found


def _compared(
    cell: tree.Expression,
    operator: str,
    others: list[tree.Expression] | tuple[tree.Expression, ...],
    variable: str,
) -> Threshold | None:
    if not isinstance(cell, tree.Cell) or not isinstance(cell.body, tree.RowColumn):
        return None
    at = cell.navigation
    own = at.variables is None or variable in at.variables
    if not own or at.from_first or at.offset or at.shift:
        return None
    values = [_constant(other) for other in others]
    known = tuple(value for value in values if value is not None)
    return Threshold(cell.body.name, operator, known) if len(known) == len(values) else None


def _constant(node: tree.Expression) -> Constant | None:
    if not isinstance(node, tree.Literal) or isinstance(node.value, bool) or node.value is None:
        return None
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, float) and not abs(node.value) < EXACT_MAX:
        return None
    return node.value
