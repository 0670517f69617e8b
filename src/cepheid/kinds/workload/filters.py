"""Many filters over the same events: conditions on one column are computed for distinct values.

A condition that reads a single column, however long, is evaluated once for each distinct value of
the column in a batch, and NULL. In logs these are few, and most conditions hold for none of them:
then no event is looked at. Filters that begin with the same conditions read only the events for
which these hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.errors import Span
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.kinds.selection.rows import project_rows
from cepheid.language import tree
from cepheid.memory_limits import check_rows
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.plans.selection import SelectKind, plain_attribute

Mask = NDArray[np.bool_]
NONE, ALL = np.zeros(1, np.bool_), np.ones(1, np.bool_)
"""Masks of no event, and of all of them."""

LOWERED = "LOWER\0"
"""What stands before the name of a column whose texts are wanted in lower case."""

LEADING = 2
"""Conditions at the beginning that filters may have in common: a channel and a kind of event."""


class Test(NamedTuple):
    """A condition: on one ``column``, on several, or ``AND``, ``OR`` and ``NOT`` of others."""

    number: int
    expression: tree.Expression
    column: str = ""
    operator: str = ""
    operands: tuple[Test, ...] = ()


def is_filter(plan: Plan) -> bool:
    """Check whether a query filters events and does nothing else."""
    if not isinstance(plan, SelectPlan) or plan.functions:
        return False
    select = plan.select
    plain = select.kind is SelectKind.FILTER and not select.order and select.limit is None
    return plain and len(select.streams) == 1


class Filters:
    """Filters by name, which take batches of events in order and collect rows."""

    def __init__(self, plans: Mapping[str, SelectPlan], schema: pa.Schema) -> None:
        self._plans, self._schema = plans, schema
        self._known: dict[tree.Expression, Test] = {}
        self._numbers = count()
        self._rows, self._bytes = 0, 0
        self._found: dict[str, list[pa.Table]] = {name: [] for name in plans}
        self._groups: dict[tuple[int, ...], list[tuple[str, list[Test]]]] = {}
        self._leading: dict[tuple[int, ...], list[Test]] = {}
        self._empty: dict[Any, pa.Table] = {}
        for name, plan in plans.items():
            tests = [self._test(_prepared(one)) for one in plan.select.condition]
            head = tests[:LEADING]
            key = tuple(one.number for one in head)
            self._leading[key] = head
            self._groups.setdefault(key, []).append((name, tests[len(head) :]))

    def add(self, batch: pa.Table) -> None:
        """Filter a batch."""
        if not len(batch):
            return
        whole = _Batch(batch)
        for key, members in self._groups.items():
            mask = whole.all_of(self._leading[key])
            if mask is NONE:
                continue
            part = whole if mask is ALL else _Batch(batch, np.flatnonzero(mask))
            for name, tests in members:
                held = part.all_of(tests)
                if held is not NONE:
                    self._keep(name, part.events(held))

    def _keep(self, name: str, events: pa.Table) -> None:
        rows = project_rows(self._plans[name].select, events)
        self._rows, self._bytes = self._rows + len(rows), self._bytes + rows.nbytes
        check_rows(self._rows, self._bytes / self._rows)
        self._found[name].append(rows)

    def end(self) -> dict[str, pa.Table]:
        """Return the rows of all filters."""
        return {
            name: pa.concat_tables([self._nothing(name), *tables])
            for name, tables in self._found.items()
        }

    def _nothing(self, name: str) -> pa.Table:
        """Build a result without rows; filters with the same columns have the same one."""
        select = self._plans[name].select
        columns = tuple((one.name, plain_attribute(one.expression)) for one in select.columns)
        if (None in (column for _, column in columns)) or columns not in self._empty:
            self._empty[columns] = project_rows(select, self._schema.empty_table())
        return self._empty[columns]

    def _test(self, expression: tree.Expression) -> Test:
        """Take a condition apart; equal ones are one object."""
        if expression not in self._known:
            self._known[expression] = self._taken_apart(expression)
        return self._known[expression]

    def _taken_apart(self, expression: tree.Expression) -> Test:
        number = next(self._numbers)
        nodes = tree.walk(expression)
        names = {_column(node) for node in nodes if isinstance(node, tree.Attribute)}
        if len(names) == 1:
            return Test(number, expression, names.pop())
        if isinstance(expression, tree.Logical):
            operands = tuple(self._test(one) for one in expression.operands)
            return Test(number, expression, "", expression.operator, operands)
        inner = _certain(expression)
        if inner is not None:
            return Test(number, expression, "", "NOT", (self._test(inner),))
        return Test(number, expression)


class _Batch:
    """A batch, or some of its events; what was computed of it is remembered."""

    def __init__(self, table: pa.Table, rows: NDArray[np.int64] | None = None) -> None:
        self._table, self._rows = table, rows
        self._whole = Columns(table)
        self._size = len(table) if rows is None else len(rows)
        self._distinct: dict[str, _Distinct | None] = {}
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[int, Mask] = {}

    def events(self, mask: Mask) -> pa.Table:
        """Return the events of a mask."""
        if mask is ALL:
            return self._table if self._rows is None else self._table.take(self._rows)
        chosen = np.flatnonzero(mask)
        return self._table.take(chosen if self._rows is None else self._rows[chosen])

    def all_of(self, tests: Iterable[Test]) -> Mask:
        """Mark the events for which all conditions are true."""
        return self._combined(tests, np.logical_and, neutral=ALL, final=NONE)

    def _combined(
        self,
        tests: Iterable[Test],
        combine: Callable[[Mask, Mask], Mask],
        *,
        neutral: Mask,
        final: Mask,
    ) -> Mask:
        found = neutral
        for test in tests:
            mask = self.holds(test)
            if mask is final:
                return final
            if mask is not neutral:
                found = mask if found is neutral else _plain(combine(found, mask))
                if found is final:
                    return final
        return found

    def holds(self, test: Test) -> Mask:
        """Mark the events for which a condition is true."""
        if test.number in self._masks:
            return self._masks[test.number]
        if test.operator == "AND":
            mask = self.all_of(test.operands)
        elif test.operator == "OR":
            mask = self._combined(test.operands, np.logical_or, neutral=NONE, final=ALL)
        elif test.operator == "NOT":
            inner = self.holds(test.operands[0])
            mask = NONE if inner is ALL else ALL if inner is NONE else ~inner
        elif test.column:
            mask = self._by_value(test)
        else:
            mask = _plain(true_mask(test.expression, self._vector, self._size))
        self._masks[test.number] = mask
        return mask

    def _by_value(self, test: Test) -> Mask:
        """Evaluate a condition on one column for its distinct values, and look up the events'."""
        if test.column not in self._distinct:
            self._distinct[test.column] = _distinct(self._arrow(test.column))
        known = self._distinct[test.column]
        if known is None:
            return _plain(true_mask(test.expression, self._vector, self._size))
        mask = _plain(true_mask(test.expression, known.vector, known.count))
        return mask if mask is NONE or mask is ALL else _plain(mask[known.codes])

    def _arrow(self, name: str) -> pa.ChunkedArray[Any]:
        column = self._whole.arrow(name)
        return column if self._rows is None else column.take(self._rows)

    def _vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values of all events."""
        name = attribute.attribute.text
        if name not in self._vectors:
            plain = name.removeprefix(LOWERED)
            values = vector_of(self._arrow(plain), name=plain)
            self._vectors[name] = values if plain == name else _lower(values, self._size)
        return self._vectors[name]


class _Distinct:
    """The distinct values of a column, NULL among them, and the place of every event's value."""

    def __init__(self, values: pa.Array[Any], codes: NDArray[np.int64], name: str = "") -> None:
        self.count, self.codes, self._name = len(values), codes, name
        self._plain = vector_of(values)
        self._lowered: Vector | None = None

    def vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values, in lower case if that is asked for."""
        if not attribute.attribute.text.startswith(LOWERED):
            return self._plain
        if self._lowered is None:
            self._lowered = _lower(self._plain, self.count)
        return self._lowered


def _distinct(column: pa.ChunkedArray[Any]) -> _Distinct | None:
    """Find the distinct values of a column; None for structures and lists, or without events."""
    if pa.types.is_nested(column.type) or not len(column):
        return None
    if pa.types.is_null(column.type):
        return _Distinct(pa.nulls(1), np.zeros(len(column), np.int64))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded: Any = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values, codes = encoded.dictionary, encoded.indices
    if codes.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        codes = codes.fill_null(len(values) - 1)
    return _Distinct(values, codes.to_numpy().astype(np.int64))


def _lower(values: Vector, count: int) -> Vector:
    return evaluate_vector(_LOWER, lambda _: values, count)


def _plain(mask: Mask) -> Mask:
    """Return the mask of all or of no event as such."""
    if not mask.any():
        return NONE
    return ALL if mask.all() else mask


_NAME = tree.Name(span=Span(0, 0), text="_")
_LOWER = tree.Call(
    span=Span(0, 0),
    function="LOWER",
    arguments=(tree.Attribute(span=Span(0, 0), variable=_NAME, attribute=_NAME),),
)


def _prepared(condition: tree.Expression) -> tree.Expression:
    """Let a condition read texts in lower case as columns, which are computed once."""

    def lowered(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            return msgspec.structs.replace(node, variable=_NAME)
        if isinstance(node, tree.Call) and node.function == "LOWER":
            (argument,) = node.arguments
            if isinstance(argument, tree.Attribute):
                name = msgspec.structs.replace(
                    argument.attribute, text=f"{LOWERED}{argument.attribute.text}"
                )
                return msgspec.structs.replace(argument, attribute=name)
        return node

    return tree.transform(condition, lowered)


def _column(attribute: tree.Attribute) -> str:
    return attribute.attribute.text.removeprefix(LOWERED)


def _certain(expression: tree.Expression) -> tree.Expression | None:
    """Return the condition of ``NOT COALESCE(condition, FALSE)``: true where it is not."""
    if not isinstance(expression, tree.Unary) or expression.operator != "NOT":
        return None
    call = expression.operand
    if not isinstance(call, tree.Call) or call.function != "COALESCE" or len(call.arguments) != 2:
        return None
    inner, default = call.arguments
    return inner if isinstance(default, tree.Literal) and default.value is False else None
