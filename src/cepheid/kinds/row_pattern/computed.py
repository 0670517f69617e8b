"""A table in, the same with computed columns out: fields of structures, and keys of a clause."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import BindError, Diagnostic, suggest_names
from cepheid.expressions.arrow import Value
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind_expressions import find_column
from cepheid.kinds.row_pattern.measures import full_length
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.values import evaluate


def with_derived(plan: MatchPlan, table: pa.Table) -> pa.Table:
    """Return a table with the columns that a clause computes; those that it has stay.

    Raises
    ------
    BindError
        E603 if a structure has no such field, E609 if a column is none.
    """
    for name, expression in plan.derived:
        if name in table.column_names:
            continue

        def leaf(node: tree.Expression, known: pa.Table = table) -> Value:
            if isinstance(node, tree.RowField):
                return field_of(node, _column(known, node.column), plan.text)
            assert isinstance(node, tree.RowColumn), "an expression over a row has no other leaf"
            return _column(known, node.name)

        value = full_length(evaluate(expression, leaf, plan.text), len(table))
        table = table.append_column(name, value)
    return table


def _column(table: pa.Table, name: str) -> Value:
    found: Value = table.column(name).combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        chunks = found.chunks
        found = pa.concat_arrays(chunks) if chunks else pa.array([], found.type)
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found


def field_of(node: tree.RowField, array: Value, text: str) -> Value:
    """Return a field of a structure, NULL where the structure is."""
    shown = node.column
    for name in node.path:
        kind = array.type
        if not pa.types.is_struct(kind):
            message = f"`{shown}` is of type {kind}, and has no fields"
            raise BindError([Diagnostic("E609", message, node.span)], text)
        names = [kind.field(i).name for i in range(kind.num_fields)]
        found = find_column(name, names)
        if found is None:
            message = f"`{shown}` has no field `{name}`"
            helps = (suggest_names(name, names, owner="it"),)
            raise BindError([Diagnostic("E603", message, node.span, helps=helps)], text)
        array = pc.struct_field(array, [names.index(found)])
        shown = f"{shown}.{found}"
    return array
