"""DEFINE conditions in, masks over all rows out, and what is left of them for the search.

A condition is *local* if it speaks of the current row and rows at fixed distances from it: it is
then known for every row before any match is. Of a condition that is not local, the local parts of
its conjunction are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.arrow import Value, pa
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.values import evaluate, evaluate_condition

Mask = NDArray[np.bool_]


class Condition(NamedTuple):
    """A DEFINE condition: where its local part holds (None is everywhere), and the rest."""

    mask: Mask | None
    rest: tree.Expression | None


def prepare_conditions(plan: MatchPlan, rows: ArrangedRows) -> list[Condition]:
    """Return the condition of every variable of a plan, in the order of the variables."""
    return [_prepare(plan, rows, variable) for variable in plan.variables]


def _prepare(plan: MatchPlan, rows: ArrangedRows, variable: str) -> Condition:
    mask: Mask | None = None
    rest: list[tree.Expression] = []
    condition = plan.conditions.get(variable)
    for part in conjuncts(condition) if condition is not None else ():
        if not is_local(part, variable):
            rest.append(_of_own_row(part, variable))
            continue
        holds = _holds(part, rows, variable, plan.text)
        if holds is not None:
            mask = holds if mask is None else mask & holds
    joined = reduce(
        lambda a, b: tree.Binary("AND", a, b, span=a.span.to(b.span)), rest[1:], rest[0]
    ) if rest else None  # fmt: skip
    return Condition(mask, joined)


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


def conjuncts(node: tree.Expression) -> Iterator[tree.Expression]:
    """Yield the parts of a conjunction."""
    if isinstance(node, tree.Binary) and node.operator == "AND":
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node


def is_local(node: tree.Expression, variable: str) -> bool:
    """Return whether a bound condition of a variable speaks of the current row alone.

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
            return not _has(body, tree.MatchNumber) and not (
                navigation.shift and _has(body, tree.RowLabel)
            )
    return all(is_local(child, variable) for child in tree.children(node))


def _has(node: tree.Expression, kind: type) -> bool:
    return isinstance(node, kind) or any(_has(child, kind) for child in tree.children(node))


def _holds(node: tree.Expression, rows: ArrangedRows, variable: str, text: str) -> Mask | None:
    """Return where a local condition is true, or None if it is true everywhere."""

    def row_leaf(inner: tree.Expression) -> Value:
        if isinstance(inner, tree.RowColumn):
            return rows.column(inner.name)
        assert isinstance(inner, tree.RowLabel), "a local condition has no other leaf"
        return pa.scalar(variable)

    def leaf(cell: tree.Expression) -> Value:
        assert isinstance(cell, tree.Cell), "a local condition has no other leaf"
        value = evaluate(cell.body, row_leaf, text)
        # At a row that does not exist the whole expression is NULL, not only its columns.
        if cell.navigation.shift == 0:
            return value
        array = value if isinstance(value, pa.Array) else pa.repeat(value, rows.row_count)
        return rows.shifted(array, cell.navigation.shift)

    value = evaluate_condition(node, leaf, text)
    if isinstance(value, pa.Scalar):
        return None if value.as_py() is True else np.zeros(rows.row_count, np.bool_)
    return truth(value)


def truth(value: Value) -> Mask:
    """Return where a condition is true, and neither false nor NULL."""
    known = value.fill_null(False) if value.null_count else value
    found: Mask = known.to_numpy(zero_copy_only=False)
    return found
