"""A SELECT over tables and joins, run in process: the SQL around a clause that needs no Spark.

``[WITH name AS (...)] SELECT list FROM tables [WHERE] [GROUP BY] [ORDER BY] [LIMIT]``, where the
list has expressions, ``*`` and aggregates, and a table may be another such SELECT in parentheses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyarrow import Table

from cepheid.errors import BindError, Diagnostic, suggest_names
from cepheid.expressions.arrow import Value, pa
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.aggregates import aggregate
from cepheid.kinds.row_pattern.arrange import ArrangedRows, refuse_nested
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES, find_column
from cepheid.kinds.row_pattern.joins import Sides, bind_join, conjuncts_of, rows_of
from cepheid.kinds.row_pattern.measures import full_length
from cepheid.kinds.row_pattern.plan import OrderKey
from cepheid.kinds.row_pattern.relation import Relation, Scope, leaf_of
from cepheid.kinds.row_pattern.select_tree import Item, Select, Source, Subquery, TableName
from cepheid.kinds.row_pattern.values import evaluate, true_rows
from cepheid.kinds.row_pattern.window_sites import COLUMN


def run_select(select: Select, tables: Mapping[str, Table], text: str) -> Table:
    """Return the result of a SELECT over named tables.

    Raises
    ------
    BindError
        E603 if a column is not there, or several are, E613 if a table is not.
    DataError
        E519 if a join has more pairs than fit the limit of a step.
    """
    known = dict(tables)
    for name, query in select.named:
        known[name] = run_select(query, known, text)
    sides = _Sources(known, text).sides(select.source)
    where = None if select.where is None else sides.scope.bound(select.where)
    rows = Relation(rows_of(sides, conjuncts_of(where)), sides.scope)
    if select.aggregates:
        found = _aggregated(select, rows)
        ordered = _sorted(select, found, Scope((), text))
    else:
        columns = _listed(select.items, rows)
        found = Table.from_arrays([c for _, c in columns], names=[name for name, _ in columns])
        ordered = _sorted(select, found, rows.scope, rows)
    return ordered if select.limit is None else ordered.slice(0, select.limit)


class _Sources:
    """The tables of a query; their columns are numbered, one table after the other."""

    def __init__(self, tables: Mapping[str, Table], text: str) -> None:
        self._tables, self._text = tables, text
        self._columns = 0

    def sides(self, source: Source) -> Sides:
        """Read the tables of a FROM, and bind the conditions of its joins."""
        match source:
            case TableName():
                return self._relation(self._table(source), source.alias)
            case Subquery():
                inner = run_select(source.select, self._tables, self._text)
                return self._relation(inner, source.alias)
        return bind_join(source, self.sides(source.left), self.sides(source.right))

    def _relation(self, table: Table, owner: str) -> Relation:
        begin, self._columns = self._columns, self._columns + table.num_columns
        return Relation.of(table, owner, begin, self._text)

    def _table(self, source: TableName) -> Table:
        found = find_column(source.name, list(self._tables))
        if found is None:
            message = f"there is no table `{source.name}`"
            shown = [name for name in self._tables if not name.startswith("cepheid_match_")]
            helps = (suggest_names(source.name, shown, owner="`tables`"),) if shown else ()
            raise BindError([Diagnostic("E613", message, source.span, helps=helps)], self._text)
        return self._tables[found]


def _listed(items: tuple[Item, ...], rows: Relation) -> list[tuple[str, Value]]:
    columns: list[tuple[str, Value]] = []
    for item in items:
        if item.expression is None:
            places = rows.scope.of(item.owner) if item.owner else rows.scope.shown
            columns += [(place.name, rows.table.column(place.column)) for place in places]
            continue
        bound = rows.scope.bound(item.expression)
        value = evaluate(bound, rows.leaf, rows.scope.text)
        columns.append((item.name, full_length(value, len(rows.table))))
    return columns


def _sorted(select: Select, found: Table, scope: Scope, rows: Relation | None = None) -> Table:
    """Sort rows by columns of the result, or else by those of the tables, which have as many."""
    if not select.order_by:
        return found
    keys, columns = [], []
    for place, key in enumerate(select.order_by):
        named = list(dict.fromkeys(found.column_names))
        name = None if key.column.qualifier else find_column(key.column.name, named)
        if name is not None:
            column = found.column(found.column_names.index(name))
        elif rows is not None:
            column = rows.leaf(scope.column(key.column))
        else:
            message = f"the result has no column `{key.column.name}`"
            helps = (suggest_names(key.column.name, named, owner="it"),)
            raise BindError([Diagnostic("E603", message, key.span, helps=helps)], scope.text)
        refuse_nested(key.column.name, column.type)
        columns.append(column)
        keys.append(OrderKey(f"key {place}", key.descending, key.nulls_first))
    chosen = Table.from_arrays(columns, names=[key.column for key in keys])
    order = ArrangedRows(chosen, (), tuple(keys)).order
    return found if order is None else found.take(pa.array(order))


def _key_name(node: tree.Expression) -> str:
    """Return the name of a column; that of a field names the structure, too."""
    if isinstance(node, tree.RowField):
        return " . ".join([node.column, *map(str.lower, node.path)])
    assert isinstance(node, tree.RowColumn), "an expression over rows has no other leaf"
    return node.name


def _check_grouped(node: tree.Expression, groups: Sequence[str], scope: Scope) -> None:
    """Refuse a column that has more than one value in a group."""
    column = node.column if isinstance(node, tree.RowField) else _key_name(node)
    if column in groups or _key_name(node) in groups:
        return
    shown = next(place.name for place in scope.places if place.column == column)
    called = shown.startswith(COLUMN)
    what = "a call over a window" if called else f"`{shown}`"
    message = f"{what} stands beside aggregates and not in GROUP BY"
    add = f"add it to GROUP BY, or write `ANY_VALUE({shown})`"
    helps = ("aggregate in a query around this one" if called else add,)
    raise BindError([Diagnostic("E613", message, node.span, helps=helps)], scope.text)


def _aggregated(select: Select, given: Relation) -> Table:
    """Return one row for every group, or one row in all."""
    table, scope = given.table, given.scope
    groups = []
    for column in select.group_by:
        key = scope.column(column)
        groups.append(_key_name(key))
        if groups[-1] not in table.column_names:
            table = table.append_column(groups[-1], given.leaf(key))
        refuse_nested(column.name, table.schema.field(groups[-1]).type)
    rows = ArrangedRows(table, tuple(groups), ())
    bounds = rows.bounds if groups else np.array([0, len(table)], np.int64)
    begins, sizes = bounds[:-1], np.diff(bounds)

    def row_leaf(node: tree.Expression) -> Value:
        if isinstance(node, tree.RowColumn) or _key_name(node) in groups:
            return rows.column(_key_name(node))
        assert isinstance(node, tree.RowField), "an expression over rows has no other leaf"
        return leaf_of(Table.from_arrays([rows.column(node.column)], [node.column]), node, scope)

    def aggregate_of(call: tree.Call) -> Value:
        over: tuple[tree.Expression, ...] = call.arguments
        if call.star:
            over = (tree.Literal(1, span=call.span),)
        over = (*over, *call.order)
        node = tree.Aggregate(
            call.function, over, None, True, call.distinct, ordering=call.ordering, span=call.span
        )
        values = (evaluate(a, row_leaf, scope.text) for a in over)
        arguments = [full_length(value, len(table)) for value in values]
        use = np.ones(len(table), np.bool_)
        if call.condition is not None:
            use = true_rows(call.condition, row_leaf, len(table), scope.text)
        return aggregate(node, arguments, use, bounds, begins, sizes - 1, scope.text)

    def value(expression: tree.Expression) -> Value:
        found: dict[str, tree.Call] = {}

        def replaced(node: tree.Expression) -> tree.Expression:
            if isinstance(node, tree.Call) and node.function in AGGREGATES:
                name = f"aggregate {len(found)}"
                found[name] = node
                return tree.RowColumn(name, span=node.span)
            inner = tuple(replaced(child) for child in tree.children(node))
            return tree.with_children(node, inner)

        def leaf(node: tree.Expression) -> Value:
            if isinstance(node, tree.RowColumn) and node.name in found:
                return aggregate_of(found[node.name])
            _check_grouped(node, groups, scope)
            return row_leaf(node).take(pa.array(begins))

        return evaluate(replaced(scope.bound(expression)), leaf, scope.text)

    columns = []
    for item in select.items:
        assert item.expression is not None, "the parser refuses * beside aggregates"
        columns.append(full_length(value(item.expression), len(sizes)))
    return Table.from_arrays(columns, names=[item.name for item in select.items])
