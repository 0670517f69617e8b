"""DEFINE conditions in, masks over all rows out, and what is left of them for the search.

A condition is *local* if it speaks of the current row and rows at fixed distances from it: it is
then known for every row before any match is. Of a condition that is not local, the local parts of
its conjunction are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cepheid.expressions.arrow import Value, pa
from cepheid.expressions.functions import FUNCTIONS
from cepheid.expressions.vectors import Vector
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import sees_outside
from cepheid.kinds.row_pattern.values import evaluate, true_rows

Mask = NDArray[np.bool_]


class Condition(NamedTuple):
    """A DEFINE condition: where its local part holds (None is everywhere), and the rest."""

    mask: Mask | None
    rest: tree.Expression | None


def prepare_conditions(plan: MatchPlan, rows: ArrangedRows) -> list[Condition]:
    """Return the condition of every variable of a plan, in the order of the variables."""
    confined = sees_outside(plan)
    return [_prepare(plan, rows, variable, confined=confined) for variable in plan.variables]


def _prepare(plan: MatchPlan, rows: ArrangedRows, variable: str, *, confined: bool) -> Condition:
    mask: Mask | None = None
    rest: list[tree.Expression] = []
    condition = plan.conditions.get(variable)
    for part in conjuncts(condition) if condition is not None else ():
        # Which rows there are in the frame of a window depends on the match.
        if not is_local(part, variable) or (confined and _looks_beside(part)):
            rest.append(_lifted(_of_own_row(part, variable)))
            continue
        holds = _holds(part, rows, variable, plan.text)
        if holds is not None:
            mask = holds if mask is None else mask & holds
    joined = rest[0] if rest else None
    if len(rest) > 1:
        joined = tree.Logical("AND", tuple(rest), span=rest[0].span.to(rest[-1].span))
    return Condition(mask, joined)


def _looks_beside(node: tree.Expression) -> bool:
    """Check whether a condition looks at rows beside the current one."""
    cells = (part for part in tree.walk(node) if isinstance(part, tree.Cell))
    return any(cell.navigation.shift for cell in cells)


def _of_own_row(node: tree.Expression, variable: str) -> tree.Expression:
    """Return a condition in which the last row of its own variable is the current row.

    It is, and the search need not keep where that row was for the conditions that follow.
    """
    if isinstance(node, tree.Cell):
        at = node.navigation
        if at.variables is None or variable not in at.variables or at.from_first or at.offset:
            return node
        own = msgspec.structs.replace(at, variables=None)
        return msgspec.structs.replace(node, navigation=own)
    if isinstance(node, tree.Aggregate):
        return node
    inner = tuple(_of_own_row(child, variable) for child in tree.children(node))
    return tree.with_children(node, inner)


def _lifted(node: tree.Expression) -> tree.Expression:
    """Return a condition in which functions of values of one row are columns of that row.

    They are then computed for all rows at once, and not for every partial match.
    """
    if isinstance(node, tree.Leaf):
        return node
    inner = tuple(map(_lifted, tree.children(node)))
    node = tree.with_children(node, inner)
    cells = [child for child in inner if isinstance(child, tree.Cell)]
    values = (tree.Cell, tree.Literal, tree.Duration, tree.Moment)
    one_row = len({cell.navigation for cell in cells}) == 1
    if not (one_row and _is_strict(node) and all(isinstance(child, values) for child in inner)):
        return node
    body = tuple(child.body if isinstance(child, tree.Cell) else child for child in inner)
    if any(tree.contains(part, tree.RowLabel | tree.MatchNumber) for part in body):
        return node
    return tree.Cell(cells[0].navigation, tree.with_children(node, body), span=node.span)


def _is_strict(node: tree.Expression) -> bool:
    """Check whether an expression is NULL if a value is, as where there is no row."""
    if isinstance(node, tree.OwnCall):
        return False
    if isinstance(node, tree.Call):
        return FUNCTIONS[node.function].takes is not None
    if isinstance(node, tree.Binary):
        return node.operator != "DISTINCT"
    return isinstance(node, tree.Unary | tree.Like)


def conjuncts(node: tree.Expression) -> Iterator[tree.Expression]:
    """Yield the parts of a conjunction."""
    if isinstance(node, tree.Logical) and node.operator == "AND":
        for operand in node.operands:
            yield from conjuncts(operand)
    else:
        yield node


def is_local(node: tree.Expression, variable: str) -> bool:
    """Check whether a bound condition of a variable speaks of the current row alone.

    Rows at a fixed distance from it count as well.
    """
    match node:
        case tree.MatchNumber() | tree.Aggregate():
            return False
        case tree.Cell(navigation=navigation, body=body):
            if navigation.from_first or navigation.offset:
                return False
            if navigation.variables is not None and variable not in navigation.variables:
                return False
            return not tree.contains(body, tree.MatchNumber) and not (
                navigation.shift and tree.contains(body, tree.RowLabel)
            )
    return all(is_local(child, variable) for child in tree.children(node))


def _holds(node: tree.Expression, rows: ArrangedRows, variable: str, text: str) -> Mask | None:
    """Find where a local condition is true, or None if it is true everywhere."""

    def row_leaf(inner: tree.Expression) -> Value:
        if isinstance(inner, tree.RowColumn):
            return rows.column(inner.name)
        assert isinstance(inner, tree.RowLabel), "a local condition has no other leaf"
        return pa.scalar(variable)

    def leaf(cell: tree.Expression) -> Value | Vector:
        assert isinstance(cell, tree.Cell), "a local condition has no other leaf"
        if isinstance(cell.body, tree.RowColumn):
            near = rows.neighbours(cell.body.name, cell.navigation.shift)
            if near is not None:
                return near
        value = evaluate(cell.body, row_leaf, text)
        # At a row that does not exist the whole expression is NULL, not only its columns.
        if cell.navigation.shift == 0:
            return value
        array = value if isinstance(value, pa.Array) else pa.repeat(value, rows.row_count)
        return rows.shifted(array, cell.navigation.shift)

    mask = true_rows(node, leaf, rows.row_count, text)
    return None if mask.all() else mask
