"""A SELECT over one table, run in process: the SQL around a clause that needs no Spark.

``[WITH name AS (...)] SELECT list FROM table [WHERE] [GROUP BY] [ORDER BY] [LIMIT]``, where the
list has expressions, ``*`` and aggregates, and the table may be another such SELECT in parentheses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyarrow import Table

from cepheid.errors import BindError, Diagnostic, suggest_names
from cepheid.expressions.arrow import Value, pa
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.aggregates import aggregate
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES, find_column
from cepheid.kinds.row_pattern.measures import full_length
from cepheid.kinds.row_pattern.plan import OrderKey
from cepheid.kinds.row_pattern.select_tree import Item, Select
from cepheid.kinds.row_pattern.values import evaluate, true_rows
from cepheid.kinds.row_pattern.window_sites import COLUMN


def run_select(select: Select, tables: Mapping[str, Table], text: str) -> Table:
    """Return the result of a SELECT over named tables.

    Raises
    ------
    BindError
        E603 if a column is not there, E613 if a table is not.
    """
    known = dict(tables)
    for name, query in select.named:
        known[name] = run_select(query, known, text)
    table = _source(select.source, known, text)
    if select.where is not None:
        table = table.filter(pa.array(_holds(select.where, table, text)))
    if select.aggregates:
        table = _aggregated(select, table, text)
        ordered = _sorted(select, table, text)
    else:
        # ORDER BY may name columns of either side of the list.
        columns = _listed(select.items, table, text)
        extra = [
            (name, table.column(name)) for name in table.column_names if name not in dict(columns)
        ]
        both = Table.from_arrays([c for _, c in (*columns, *extra)], names=_names(columns, extra))
        ordered = _sorted(select, both, text).select(range(len(columns)))
        ordered = ordered.rename_columns([name for name, _ in columns])
    return ordered if select.limit is None else ordered.slice(0, select.limit)


def _names(columns: list[tuple[str, Value]], extra: list[tuple[str, Value]]) -> list[str]:
    return [name for name, _ in (*columns, *extra)]


def _source(source: str | Select, tables: Mapping[str, Table], text: str) -> Table:
    if isinstance(source, Select):
        return run_select(source, tables, text)
    found = find_column(source, list(tables))
    if found is None:
        message = f"there is no table `{source}`"
        shown = [name for name in tables if not name.startswith("cepheid_match_")]
        helps = (suggest_names(source, shown, owner="`tables`"),) if shown else ()
        raise BindError([Diagnostic("E613", message, helps=helps)], text)
    return tables[found]


def _column(node: tree.Expression, table: Table, text: str) -> Value:
    assert isinstance(node, tree.Column), "an expression over rows has no other leaf"
    found = find_column(node.name, table.column_names)
    if found is None:
        message = f"there is no column `{node.name}`"
        # A column for a call over a window has no name that a user knows.
        shown = [name for name in table.column_names if not name.startswith(COLUMN)]
        helps = (suggest_names(node.name, shown, owner="the table"),)
        raise BindError([Diagnostic("E603", message, helps=helps)], text)
    column: Value = table.column(found)
    # Putting chunks together copies them, even a single one.
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array


def _holds(condition: tree.Expression, table: Table, text: str) -> Value:
    return true_rows(condition, lambda node: _column(node, table, text), len(table))


def _listed(items: tuple[Item, ...], table: Table, text: str) -> list[tuple[str, Value]]:
    columns: list[tuple[str, Value]] = []
    for item in items:
        if item.expression is None:
            columns += [(name, table.column(name)) for name in table.column_names]
            continue
        value = evaluate(item.expression, lambda node: _column(node, table, text))
        columns.append((item.name, full_length(value, len(table))))
    return columns


def _sorted(select: Select, table: Table, text: str) -> Table:
    if not select.order_by:
        return table
    keys = []
    for key in select.order_by:
        found = find_column(key.column.name, list(dict.fromkeys(table.column_names)))
        if found is None:
            _column(key.column, table, text)
        keys.append(OrderKey(str(found), key.descending, key.nulls_first))
    unique = dict(zip(table.column_names, range(table.num_columns), strict=True))
    chosen = table.select([unique[key.column] for key in keys])
    rows = ArrangedRows(chosen, (), tuple(keys)).order
    return table if rows is None else table.take(pa.array(rows))


def _check_grouped(node: tree.Expression, groups: Sequence[str], text: str) -> None:
    """Refuse a column that has more than one value in a group."""
    if isinstance(node, tree.Column) and find_column(node.name, list(groups)) is None:
        called = node.name.startswith(COLUMN)
        what = "a call over a window" if called else f"`{node.name}`"
        message = f"{what} stands beside aggregates and not in GROUP BY"
        add = f"add it to GROUP BY, or write `ANY_VALUE({node.name})`"
        helps = ("aggregate in a query around this one" if called else add,)
        raise BindError([Diagnostic("E613", message, helps=helps)], text)


def _aggregated(select: Select, table: Table, text: str) -> Table:
    """Return one row for every group, or one row in all."""
    groups = []
    for column in select.group_by:
        _column(column, table, text)
        groups.append(str(find_column(column.name, table.column_names)))
    rows = ArrangedRows(table, tuple(groups), ())
    bounds = rows.bounds if groups else np.array([0, len(table)], np.int64)
    begins, sizes = bounds[:-1], np.diff(bounds)

    def row_leaf(node: tree.Expression) -> Value:
        _column(node, table.slice(0, 0), text)
        assert isinstance(node, tree.Column), "an expression over rows has no other leaf"
        return rows.column(str(find_column(node.name, table.column_names)))

    def aggregate_of(call: tree.Call) -> Value:
        over: tuple[tree.Expression, ...] = call.arguments
        if call.star:
            over = (tree.Literal(1, span=call.span),)
        over = (*over, *call.order)
        node = tree.Aggregate(
            call.function, over, None, True, call.distinct, ordering=call.ordering, span=call.span
        )
        arguments = [full_length(evaluate(a, row_leaf), len(table)) for a in over]
        use = np.ones(len(table), np.bool_)
        if call.condition is not None:
            use = true_rows(call.condition, row_leaf, len(table))
        return aggregate(node, arguments, use, bounds, begins, sizes - 1, "")

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
            if isinstance(node, tree.RowColumn):
                return aggregate_of(found[node.name])
            _check_grouped(node, groups, text)
            return row_leaf(node).take(pa.array(begins))

        return evaluate(replaced(expression), leaf)

    columns = []
    for item in select.items:
        assert item.expression is not None, "the parser refuses * beside aggregates"
        columns.append(full_length(value(item.expression), len(sizes)))
    return Table.from_arrays(columns, names=[item.name for item in select.items])
