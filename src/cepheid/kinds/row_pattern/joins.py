"""The tables of a FROM in, one table out: joins of the SQL around a clause, in process.

Conditions of WHERE are asked as early as they can be. Equalities between two tables number the keys
of both, which gives candidates; every condition is then evaluated for blocks of these. Rows are in
the order of the first table, then of the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.pairing import Rows, members
from cepheid.expressions.arrow import Value, is_text
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import equal_codes
from cepheid.kinds.row_pattern.measures import full_length
from cepheid.kinds.row_pattern.relation import Place, Relation, Scope, columns_in, leaf_of
from cepheid.kinds.row_pattern.select_tree import Join
from cepheid.kinds.row_pattern.values import evaluate, true_rows
from cepheid.memory_limits import current, too_much_state

PAIR_BYTES = 16
"""A pair is two row numbers."""

Conditions = tuple[tree.Expression, ...]


class Joined(NamedTuple):
    """A join whose names are bound: its sides, its conditions, and the keys that FULL combines."""

    kind: str
    left: Sides
    right: Sides
    on: Conditions
    scope: Scope
    combined: tuple[tuple[str, str, str], ...] = ()


Sides = Relation | Joined


def bind_join(join: Join, left: Sides, right: Sides) -> Joined:
    """Bind the condition of a join to the columns of both sides.

    Raises
    ------
    BindError
        E603 if a name means no column, or several.
    """
    places, text = [*left.scope.places, *right.scope.places], left.scope.text
    on: list[tree.Expression] = []
    combined = []
    for name in join.using:
        column = tree.Column(name, None, span=join.span)
        one, two = (side.scope.column(column) for side in (left, right))
        assert isinstance(one, tree.RowColumn) and isinstance(two, tree.RowColumn), "no fields"  # noqa: PT018  # one fact
        on.append(tree.Binary("=", one, two, span=join.span))
        hidden = {one.name, two.name} if join.kind == "full" else {two.name}
        hidden = {one.name} if join.kind == "right" else hidden
        shown = next(p for p in places if p.column == (two if join.kind == "right" else one).name)
        if join.kind == "full":
            both = f"{one.name} or {two.name}"
            combined.append((both, one.name, two.name))
            shown = Place("", shown.name, both)
        places = [p._replace(hidden=p.hidden or p.column in hidden) for p in places]
        places = [p for p in places if p.column != shown.column or p.hidden]
        places.insert(len(on) - 1, shown)
    scope = Scope(tuple(places), text)
    if join.on is not None:
        on += _conjuncts(scope.bound(join.on))
    return Joined(join.kind, left, right, tuple(on), scope, tuple(combined))


def rows_of(side: Sides, conditions: Sequence[tree.Expression] = ()) -> pa.Table:
    """Join tables, and keep the rows for which all conditions are true.

    Raises
    ------
    DataError
        E519 if there are more pairs than fit the limit of a step.
    """
    if isinstance(side, Relation):
        return _filtered(side.table, conditions, side.scope)
    if side.kind == "right":
        # Where every row of the second table stays, it is the first one of the other join.
        side = side._replace(kind="left", left=side.right, right=side.left)
    early, on = list(conditions), list(side.on)
    if side.kind in ("inner", "cross"):
        on, early = [*on, *early], []
    own, other = _columns(side.left), _columns(side.right)
    left_conditions, right_conditions = [], []
    if side.kind != "full":
        right_conditions = [c for c in on if columns_in([c]) <= other]
        on = [c for c in on if not columns_in([c]) <= other]
        movable = on if side.kind != "left" else early
        left_conditions = [c for c in movable if columns_in([c]) <= own]
        on = [c for c in on if c not in left_conditions]
        early = [c for c in early if c not in left_conditions]
    left, right = rows_of(side.left, left_conditions), rows_of(side.right, right_conditions)
    table = _paired(side, left, right, on)
    return _filtered(table, early, side.scope)


def _conjuncts(node: tree.Expression) -> list[tree.Expression]:
    if isinstance(node, tree.Logical) and node.operator == "AND":
        return [part for operand in node.operands for part in _conjuncts(operand)]
    return [node]


def conjuncts_of(node: tree.Expression | None) -> list[tree.Expression]:
    """List the conditions that AND combines."""
    return [] if node is None else _conjuncts(node)


def _columns(side: Sides) -> set[str]:
    return {place.column for place in side.scope.places}


def _filtered(table: pa.Table, conditions: Sequence[tree.Expression], scope: Scope) -> pa.Table:
    if not conditions:
        return table
    return table.filter(pa.array(_holding(conditions, table, scope, len(table))))


def _holding(
    conditions: Sequence[tree.Expression], table: pa.Table, scope: Scope, length: int
) -> NDArray[np.bool_]:
    """Check for which rows all conditions are true."""
    kept = np.ones(length, np.bool_)
    for condition in conditions:
        kept &= true_rows(condition, lambda node: leaf_of(table, node, scope), length, scope.text)
    return kept


def _paired(
    side: Joined, left: pa.Table, right: pa.Table, on: Sequence[tree.Expression]
) -> pa.Table:
    """Join two tables whose rows are all asked for."""
    blocks = []
    count, bound = 0, current().state // PAIR_BYTES
    for rows, others in _candidates(side, left, right, on):
        kept = _asked(side, left, right, on, rows, others)
        blocks.append((rows[kept], others[kept]))
        count += len(blocks[-1][0])
        if count > bound:
            too_much_state("pairs of rows", bound)
    nothing = np.zeros(0, np.int64)
    rows = np.concatenate([nothing, *(block[0] for block in blocks)])
    others = np.concatenate([nothing, *(block[1] for block in blocks)])
    if side.kind in ("left", "full"):
        alone = np.flatnonzero(~_marked(rows, len(left)))
        rows, others = np.append(rows, alone), np.append(others, np.full(len(alone), -1))
        order = np.argsort(rows, kind="stable")
        rows, others = rows[order], others[order]
    if side.kind == "full":
        alone = np.flatnonzero(~_marked(others[others >= 0], len(right)))
        rows, others = np.append(rows, np.full(len(alone), -1)), np.append(others, alone)
    columns = {name: _taken(left, name, rows) for name in left.column_names}
    columns |= {name: _taken(right, name, others) for name in right.column_names}
    for both, one, two in side.combined:
        columns[both] = pc.coalesce(columns[one], columns[two])
    if not columns:
        return pa.table({"rows": pa.nulls(len(rows))})
    return pa.table(columns)


def _marked(rows: Rows, length: int) -> NDArray[np.bool_]:
    found = np.zeros(length, np.bool_)
    found[rows] = True
    return found


def _taken(table: pa.Table, name: str, rows: Rows) -> Value:
    """Return rows of a column, NULL for those with the number -1."""
    missing = rows < 0
    places: Value = pa.array(rows)
    if missing.any():
        places = pa.array(np.where(missing, 0, rows), mask=missing)
    return table.column(name).take(places)


def _candidates(
    side: Joined, left: pa.Table, right: pa.Table, on: Sequence[tree.Expression]
) -> Iterator[tuple[Rows, Rows]]:
    """Enumerate pairs of rows, all with equal keys if there are any, in blocks."""
    codes = np.zeros(len(left) + len(right), np.int64)
    for one, two in _equalities(side, on):
        keys = _comparable(_values(one, left, side.scope), _values(two, right, side.scope))
        if keys is None:
            continue
        known = np.asarray(pc.is_valid(keys))
        numbers = equal_codes(keys)
        _, numbers = np.unique(
            codes * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True
        )
        codes = np.where(known & (codes >= 0), numbers, -1)
    own, other = codes[: len(left)], codes[len(left) :]
    order = np.argsort(other, kind="stable")
    begins = np.searchsorted(other[order], own, side="left")
    counts = np.searchsorted(other[order], own, side="right") - begins
    for rows, at in members(begins, np.where(own < 0, 0, counts)):
        yield rows, order[at]


def _values(node: tree.Expression, table: pa.Table, scope: Scope) -> Value:
    value = evaluate(node, lambda leaf: leaf_of(table, leaf, scope), scope.text)
    return full_length(value, len(table))


def _equalities(
    side: Joined, on: Sequence[tree.Expression]
) -> Iterator[tuple[tree.Expression, tree.Expression]]:
    """Find the conditions that compare a value of one table with a value of the other by ``=``."""
    own, other = _columns(side.left), _columns(side.right)
    for condition in on:
        if not isinstance(condition, tree.Binary) or condition.operator != "=":
            continue
        one, two = columns_in([condition.left]), columns_in([condition.right])
        if one and two and one <= own and two <= other:
            yield condition.left, condition.right
        elif one and two and one <= other and two <= own:
            yield condition.right, condition.left


def _comparable(one: Value, two: Value) -> Value | None:
    """Put keys into one array in which equal ones are equal; others may be, too."""
    kinds, types = (one.type, two.type), pa.types
    if all(types.is_integer(kind) and not types.is_uint64(kind) for kind in kinds):
        target: Value = pa.int64()
    elif all(types.is_integer(kind) or types.is_floating(kind) for kind in kinds):
        # Large numbers are rounded alike, so equal ones stay equal.
        target = pa.float64()
    elif all(map(is_text, kinds)):
        target = pa.large_string()
    elif one.type == two.type and not types.is_nested(one.type):
        target = one.type
    else:
        return None
    safe = target != pa.float64()
    return pa.concat_arrays([array.cast(target, safe=safe) for array in (one, two)])


def _asked(
    side: Joined,
    left: pa.Table,
    right: pa.Table,
    on: Sequence[tree.Expression],
    rows: Rows,
    others: Rows,
) -> NDArray[np.bool_]:
    """Check for which candidates all conditions are true."""
    own = _columns(side.left)
    taken = pa.table(
        {
            name: _taken(left, name, rows) if name in own else _taken(right, name, others)
            for name in sorted(columns_in(on))
        }
    )
    return _holding(on, taken, side.scope, len(rows))
