"""Plan the list of SELECT: result columns, or keys and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cepheid.errors import Note, Span
from cepheid.events.schema import NUMERIC, TEMPORAL, EventSchema, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.expressions.value_types import Typing
from cepheid.kinds.selection.over_aggregates import RowScope
from cepheid.kinds.selection.scope import SelectScope
from cepheid.language import tree
from cepheid.plans.selection import (
    COUNTS_DISTINCT,
    PERCENTILES,
    SKETCHED,
    SelectAggregate,
    SelectColumn,
    SelectFunction,
    SelectKey,
    SelectOrder,
    pair_column,
    plain_attribute,
    row_column,
)

WINDOW_COLUMNS = ("window_start", "window_end")

_FUNCTIONS = {function.value: SelectFunction(function.value) for function in tree.AggregateFunction}
_FUNCTIONS |= dict.fromkeys(("MEDIAN", "PERCENTILE"), SelectFunction.PERCENTILE)
_FUNCTIONS |= {function.value: function for function in SKETCHED}
_SUMMED = NUMERIC | {ValueKind.DURATION, ValueKind.UNKNOWN}
_ORDERED = _SUMMED | TEMPORAL


def is_aggregate(node: tree.Node) -> bool:
    """Check whether a node is an aggregate of events."""
    if isinstance(node, tree.Call):
        return node.function in _FUNCTIONS
    return isinstance(node, tree.Aggregate)


class Aggregated(NamedTuple):
    """The inputs of SELECT and HAVING: keys, aggregates, and columns computed from them."""

    keys: tuple[SelectKey, ...] = ()
    aggregates: tuple[SelectAggregate, ...] = ()
    results: tuple[SelectColumn, ...] | None = None
    having: tree.Expression | None = None
    order: tuple[SelectOrder, ...] = ()


class Asked(NamedTuple):
    """An aggregate as it was written: its function, and what it is of."""

    function: SelectFunction
    argument: tree.Expression | None = None
    fraction: float | None = None


class SelectItems:
    """Plans the result columns of a SELECT."""

    def __init__(self, query: tree.SelectQuery, scope: SelectScope) -> None:
        self._query = query
        self._scope = scope
        self._findings = scope.findings
        self._named: dict[str, Span] = {}
        self._planned: list[SelectAggregate] = []
        self._columns: dict[Asked, str] = {}
        self._slots: dict[int, tuple[str, ValueKind]] = {}
        self._kinds: dict[str, ValueKind] = {}

    def _name(self, name: str, span: Span) -> str:
        if name in self._named:
            note = Note("the first one is here", self._named[name])
            message = f"two result columns are called `{name}`"
            help_ = f"name one: `... AS {name}_2`"
            self._findings.add("E209", message, span, help_, notes=(note,))
        self._named.setdefault(name, span)
        return name

    # -----------------------------------------------------------------------------------
    # Filter and join

    def columns(self) -> tuple[SelectColumn, ...]:
        """Plan the columns of rows or pairs."""
        found: list[SelectColumn] = []
        if len(self._query.items) == 1 == len(self._query.streams):
            alias = self._query.streams[0].alias.text
            schema, star = self._scope.schemas[alias], self._query.items[0]
            plain = isinstance(star, tree.Star) and (
                star.stream is None or star.stream.text == alias
            )
            if plain and schema is not None and schema.is_unique:
                return columns_of(schema, alias)
        for item in self._query.items:
            if isinstance(item, tree.Star):
                found += self._all_columns(item)
                continue
            bound = self._scope.value(item.expression)
            name = item.alias.text if item.alias else plain_attribute(bound)
            if name is None:
                message = f"the column `{format_expression(item.expression)}` has no name"
                self._findings.add("E332", message, item.span, "give it one: `... AS name`")
                name = str(len(found))
            found.append(SelectColumn(self._name(name, item.span), bound))
        return tuple(found)

    def ordered(
        self, columns: tuple[SelectColumn, ...]
    ) -> tuple[tuple[SelectColumn, ...], tuple[SelectOrder, ...]]:
        """Plan ORDER BY of rows or pairs, with the columns that it adds to those of the result."""
        known = {column.name: column.expression for column in columns}

        def bind(expression: tree.Expression) -> tree.Expression:
            named = known.get(expression.text) if isinstance(expression, tree.Word) else None
            return named if named is not None else self._scope.value(expression)

        found = self._order(bind, columns)
        for _, column in found:
            self._check_ordered(column.expression, self._scope.typing)
        added = tuple(c for order, c in found if order.hidden)
        return (*columns, *added), tuple(order for order, _ in found)

    def _order(
        self,
        bind: Callable[[tree.Expression], tree.Expression],
        columns: Sequence[SelectColumn],
    ) -> list[tuple[SelectOrder, SelectColumn]]:
        """Find the columns of ORDER BY among those of the result, or add hidden ones."""
        found = []
        for number, item in enumerate(self._query.order_by):
            if isinstance(item.expression, tree.Literal):
                message = "`ORDER BY` takes columns and values computed from them, and no place"
                self._findings.add("E331", message, item.span, "name the column")
            bound = bind(item.expression)
            same = next((c for c in columns if c.expression == bound), None)
            column = same or SelectColumn(f"cepheid order {number}", bound)
            order = SelectOrder(column.name, item.descending, item.nulls_first, same is None)
            found.append((order, column))
        return found

    def _check_ordered(self, expression: tree.Expression | None, typing: Typing) -> None:
        if expression is not None and typing.infer(expression) is ValueKind.OTHER:
            message = f"`{format_expression(expression)}` is of a kind that has no order"
            self._findings.add("E206", message, expression.span)

    def _all_columns(self, star: tree.Star) -> list[SelectColumn]:
        streams = [
            stream
            for stream in self._query.streams
            if star.stream is None or star.stream == stream.alias
        ]
        if not streams:
            assert star.stream is not None, "a star without a stream is all of them"
            message = f"no stream of the query is called `{star.stream.text}`"
            self._findings.add("E202", message, star.span)
        found = []
        # Two streams may have columns of the same name, so theirs are prefixed with the alias.
        joined = len(self._query.streams) > 1
        for stream in streams:
            alias = stream.alias.text
            schema = self._scope.schemas[alias]
            if schema is None:
                found.append(SelectColumn(f"{alias}.*", None))
                continue
            for column in top_level(schema):
                name = tree.Name(span=star.span, text=column)
                one = tree.Attribute(span=star.span, variable=stream.alias, attribute=name)
                shown = self._name(f"{alias}_{column}" if joined else column, star.span)
                found.append(SelectColumn(shown, one))
        return found

    # -----------------------------------------------------------------------------------
    # Aggregates

    def aggregates(self, having: tree.Expression | None, time: ValueKind) -> Aggregated:
        """Plan the keys, the aggregates of windows, and what is computed from them."""
        grouped = [self._scope.column(name) for name in self._query.group_by]
        for name in grouped:
            kind = self._scope.typing.infer(name)
            self._kinds[self._attribute_of(name)] = kind
            if kind is ValueKind.OTHER:
                written = name.attribute.text
                message = f"`{written}` is of kind {kind.value} and cannot be used in `GROUP BY`"
                self._findings.add("E206", message, name.span)
        names = {self._attribute_of(name): name.attribute.text for name in grouped}
        shown: list[tuple[str, tree.Expression]] = []
        for item in self._query.items:
            if isinstance(item, tree.Star):
                message = "`*` cannot be combined with aggregates or `GROUP BY`"
                self._findings.add("E331", message, item.span, "name the columns")
            elif is_aggregate(item.expression):
                shown.append((self._aggregate(item), item.expression))
            elif isinstance(item.expression, tree.Word | tree.Attribute):
                self._key(item, names)
            else:
                shown.append((self._computed_name(item), item.expression))
        keys = tuple(SelectKey(a, self._name(n, self._query.span)) for a, n in names.items())
        taken = WINDOW_COLUMNS if self._query.window is not None else ()
        for column in taken:
            self._name(column, self._query.span)
        return self._over_rows(keys, shown, having, time)

    def _attribute_of(self, column: tree.Attribute) -> str:
        """Name a column of the events that are aggregated: of pairs, with its stream."""
        name = column.attribute.text
        return pair_column(column) if len(self._query.streams) > 1 else name

    def _over_rows(
        self,
        keys: tuple[SelectKey, ...],
        shown: list[tuple[str, tree.Expression]],
        having: tree.Expression | None,
        time: ValueKind,
    ) -> Aggregated:
        """Bind the expressions over aggregated rows."""
        span = self._query.span
        names: dict[str, tuple[tree.Attribute, ValueKind]] = {}
        for key in keys:
            kind = self._kinds.get(key.attribute, ValueKind.UNKNOWN)
            names[key.attribute] = (row_column(key.name, span), kind)
            names.setdefault(key.name, names[key.attribute])
        if self._query.window is not None:
            counted = isinstance(self._query.window.within, tree.EventCount)
            edge = ValueKind.INTEGER if counted else time
            names |= {name: (row_column(name, span), edge) for name in WINDOW_COLUMNS}
        rows = RowScope(names, self._hidden, is_aggregate, self._findings)
        results = []
        for name, expression in shown:
            bound = rows.bind(expression, "SELECT")
            rows.typing.infer(bound)
            rows.add(name, bound)
            results.append(SelectColumn(name, bound))
        kept = None
        if having is not None:
            kept = rows.bind(having, "HAVING")
            rows.typing.check_condition(kept, "HAVING")
        order = self._order(
            lambda expression: rows.bind(expression, "ORDER BY"),
            [*(SelectColumn(e.attribute.text, e) for e, _ in names.values()), *results],
        )
        for _, column in order:
            self._check_ordered(column.expression, rows.typing)
        results += [column for one, column in order if one.hidden]
        found = tuple(self._planned)
        plain = [SelectColumn(one.name, row_column(one.name, span)) for one in found]
        same = results == plain
        shown_results = None if same else tuple(results)
        return Aggregated(keys, found, shown_results, kept, tuple(one for one, _ in order))

    def _computed_name(self, item: tree.ReturnItem) -> str:
        if item.alias is None:
            message = f"the column `{format_expression(item.expression)}` has no name"
            self._findings.add("E332", message, item.span, "give it one: `... AS name`")
        name = item.alias.text if item.alias else format_expression(item.expression)
        return self._name(name, item.span)

    def _key(self, item: tree.ReturnItem, names: dict[str, str]) -> None:
        column = self._scope.value(item.expression)
        assert isinstance(column, tree.Attribute), "a name is an attribute"
        name = self._attribute_of(column)
        if name not in names:
            written = format_expression(item.expression)
            message = f"`{written}` is neither grouped nor aggregated"
            self._findings.add("E210", message, item.span, f"add `GROUP BY {written}`")
        elif item.alias is not None:
            names[name] = item.alias.text

    def _aggregate(self, item: tree.ReturnItem) -> str:
        """Plan an aggregate that is a column of the result; return its name."""
        node = item.expression
        asked = self._bound(node)
        attribute = plain_attribute(asked.argument)
        called = node.function if isinstance(node, tree.Call) else asked.function.value
        default = called.lower().replace(" ", "_") + (f"_{attribute}" if attribute else "")
        if item.alias is None and asked.argument is not None and attribute is None:
            message = f"the column `{format_expression(node)}` has no name"
            self._findings.add("E332", message, item.span, "give it one: `... AS name`")
        name = self._name(item.alias.text if item.alias else default, item.span)
        self._plan(name, asked)
        self._slots[id(node)] = name, self._kind_of(asked)
        return name

    def _plan(self, name: str, asked: Asked) -> None:
        self._planned.append(SelectAggregate(name, *asked))
        self._columns.setdefault(asked, name)

    def _hidden(self, node: tree.Expression) -> tuple[str, ValueKind]:
        """Find the column of an aggregate that is computed with, or plan one."""
        if id(node) in self._slots:
            return self._slots[id(node)]
        asked = self._bound(node)
        if asked not in self._columns:
            # Messages show it, and no column of the result is called so.
            written = format_expression(node)
            self._plan(written if written not in self._named else f"{written} ", asked)
        return self._columns[asked], self._kind_of(asked)

    def _kind_of(self, asked: Asked) -> ValueKind:
        counts = {SelectFunction.COUNT, *COUNTS_DISTINCT}
        if asked.argument is None or asked.function in counts:
            return ValueKind.INTEGER
        kind = self._scope.typing.infer(asked.argument)
        means = {SelectFunction.AVG, *PERCENTILES}
        if asked.function in means and kind in NUMERIC:
            return ValueKind.DOUBLE
        return ValueKind.DOUBLE if kind is ValueKind.DECIMAL else kind

    def _bound(self, node: tree.Expression) -> Asked:
        asked = self._parts(node)
        bound = None if asked.argument is None else self._scope.value(asked.argument)
        self._check_kind(asked.function, bound, node)
        return asked._replace(argument=bound)

    def _parts(self, node: tree.Expression) -> Asked:
        if isinstance(node, tree.Call):
            function, count = _FUNCTIONS[node.function], len(node.arguments)
            asks = node.function in PERCENTILES
            if count != 1 + asks:
                message = f"`{node.function}` does not take {count} argument{'s'[: count != 1]}"
                form = f"{node.function}({'x, 0.9' if asks else 'x'})"
                self._findings.add("E205", message, node.span, f"its form is `{form}`")
                return Asked(function)
            fraction = self._fraction(node) if function in PERCENTILES else None
            return Asked(function, node.arguments[0], fraction)
        assert isinstance(node, tree.Aggregate), "an aggregate has two forms"
        function = SelectFunction(node.function.value)
        if node.distinct:
            return self._distinct(node)
        if node.variable is None:
            return Asked(function)
        if node.attribute is None:
            return Asked(function, tree.Word(span=node.variable.span, text=node.variable.text))
        span = node.variable.span.to(node.attribute.span)
        return Asked(
            function, tree.Attribute(span=span, variable=node.variable, attribute=node.attribute)
        )

    def _distinct(self, node: tree.Aggregate) -> Asked:
        name, *others = node.distinct
        if others:
            message = "`COUNT(DISTINCT ...)` of a SELECT takes one column"
            help_ = "group by the columns, and count the rows by a second query"
            self._findings.add("E205", message, node.span, help_)
        return Asked(SelectFunction.DISTINCT, self._scope.column(name))

    def _fraction(self, call: tree.Call) -> float:
        """Read the fraction of a percentile, a constant."""
        if call.function == "MEDIAN":
            return 0.5
        written = call.arguments[1]
        value = written.value if isinstance(written, tree.Literal) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        message = f"the second argument of `{call.function}` is a number from 0 to 1"
        self._findings.add("E331", message, written.span, f"write `{call.function}(x, 0.9)`")
        return 0.5

    def _check_kind(
        self, function: SelectFunction, bound: tree.Expression | None, node: tree.Expression
    ) -> None:
        if bound is None or function is SelectFunction.COUNT:
            return
        kind = self._scope.typing.infer(bound)
        if function in COUNTS_DISTINCT:
            allowed, what = None, "values that can be compared"
        elif function in PERCENTILES:
            allowed, what = NUMERIC | {ValueKind.UNKNOWN}, "numbers"
        elif function in (SelectFunction.SUM, SelectFunction.AVG):
            allowed, what = _SUMMED, "numbers and durations"
        else:
            allowed, what = _ORDERED, "numbers, times and durations"
        if kind is ValueKind.OTHER or (allowed is not None and kind not in allowed):
            written = function.value if function is not SelectFunction.DISTINCT else "DISTINCT"
            message = f"`{written}` takes {what}, and this is of kind {kind.value}"
            self._findings.add("E206", message, node.span)


@lru_cache(maxsize=256)
def columns_of(schema: EventSchema, alias: str) -> tuple[SelectColumn, ...]:
    """Return all columns of a stream; the rules of a workload that have them share them."""
    at, variable = Span(0, 0), tree.Name(span=Span(0, 0), text=alias)
    names = (tree.Name(span=at, text=column) for column in top_level(schema))
    return tuple(
        SelectColumn(name.text, tree.Attribute(span=at, variable=variable, attribute=name))
        for name in names
    )


@lru_cache(maxsize=256)
def names_of(schema: EventSchema) -> tuple[str, ...]:
    """Return the names of all columns of a stream, sorted."""
    return tuple(sorted(top_level(schema)))


def top_level(schema: EventSchema) -> list[str]:
    """List the columns that are not part of another one."""
    structures = {column.name for column in schema.columns if column.kind is ValueKind.OTHER}
    return [
        name
        for name in schema.names
        if not any(name.startswith(f"{whole}.") for whole in structures)
    ]
