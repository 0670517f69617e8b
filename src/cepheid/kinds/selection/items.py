"""Plan the list of SELECT: result columns, or keys and aggregates."""

from __future__ import annotations

from cepheid.errors import Note, Span
from cepheid.events.schema import NUMERIC, TEMPORAL, EventSchema, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.kinds.selection.scope import SelectScope
from cepheid.language import tree
from cepheid.plans.selection import (
    SelectAggregate,
    SelectColumn,
    SelectKey,
    plain_attribute,
)

WINDOW_COLUMNS = ("window_start", "window_end")

_FUNCTIONS = {function.value: function for function in tree.AggregateFunction}
_SUMMED = NUMERIC | {ValueKind.DURATION, ValueKind.UNKNOWN}
_ORDERED = _SUMMED | TEMPORAL


def is_aggregate(node: tree.Node) -> bool:
    """Check whether a node is an aggregate of events."""
    if isinstance(node, tree.Call):
        return node.function in _FUNCTIONS
    return isinstance(node, tree.Aggregate)


class SelectItems:
    """Plans the result columns of a SELECT."""

    def __init__(self, query: tree.SelectQuery, scope: SelectScope) -> None:
        self._query = query
        self._scope = scope
        self._findings = scope.findings
        self._named: dict[str, Span] = {}

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

    def aggregates(self) -> tuple[tuple[SelectKey, ...], tuple[SelectAggregate, ...]]:
        """Plan the keys and the aggregates of windows."""
        names = {name.text: name.text for name in self._query.group_by}
        for name in self._query.group_by:
            kind = self._scope.attribute_kind(self._query.streams[0].alias.text, name)
            if kind is ValueKind.OTHER:
                message = f"`{name.text}` is of kind {kind.value} and cannot be used in `GROUP BY`"
                self._findings.add("E206", message, name.span)
        found = []
        for item in self._query.items:
            if isinstance(item, tree.Star):
                message = "`*` cannot be combined with aggregates or `GROUP BY`"
                self._findings.add("E331", message, item.span, "name the columns")
            elif is_aggregate(item.expression):
                found.append(self._aggregate(item))
            elif any(map(is_aggregate, tree.walk(item.expression))):
                message = f"`{format_expression(item.expression)}` is more than one aggregate"
                self._findings.add("E331", message, item.span, "compute with them afterwards")
            else:
                self._key(item, names)
        keys = tuple(SelectKey(a, self._name(n, self._query.span)) for a, n in names.items())
        taken = WINDOW_COLUMNS if self._query.window is not None else ()
        for column in taken:
            self._name(column, self._query.span)
        return keys, tuple(found)

    def _key(self, item: tree.ReturnItem, names: dict[str, str]) -> None:
        name = plain_attribute(self._scope.value(item.expression))
        if name not in names:
            message = f"`{format_expression(item.expression)}` is neither grouped nor aggregated"
            help_ = f"add `GROUP BY {name}`" if name else "aggregate it"
            self._findings.add("E210", message, item.span, help_)
        elif item.alias is not None:
            names[name] = item.alias.text

    def _aggregate(self, item: tree.ReturnItem) -> SelectAggregate:
        node = item.expression
        function, argument = self._parts(node)
        bound = None if argument is None else self._scope.value(argument)
        attribute = plain_attribute(bound)
        default = function.value.lower() + (f"_{attribute}" if attribute else "")
        if item.alias is None and bound is not None and attribute is None:
            message = f"the column `{format_expression(node)}` has no name"
            self._findings.add("E332", message, item.span, "give it one: `... AS name`")
        self._check_kind(function, bound, node)
        name = self._name(item.alias.text if item.alias else default, item.span)
        return SelectAggregate(name, function, bound)

    def _parts(
        self, node: tree.Expression
    ) -> tuple[tree.AggregateFunction, tree.Expression | None]:
        if isinstance(node, tree.Call):
            function = _FUNCTIONS[node.function]
            if len(node.arguments) != 1:
                message = f"`{node.function}` does not take {len(node.arguments)} arguments"
                self._findings.add("E205", message, node.span, f"its form is `{node.function}(x)`")
                return function, None
            return function, node.arguments[0]
        assert isinstance(node, tree.Aggregate), "an aggregate has two forms"
        if node.variable is None:
            return node.function, None
        if node.attribute is None:
            word = tree.Word(span=node.variable.span, text=node.variable.text)
            return node.function, word
        span = node.variable.span.to(node.attribute.span)
        inner = tree.Attribute(span=span, variable=node.variable, attribute=node.attribute)
        return node.function, inner

    def _check_kind(
        self,
        function: tree.AggregateFunction,
        bound: tree.Expression | None,
        node: tree.Expression,
    ) -> None:
        if bound is None or function is tree.AggregateFunction.COUNT:
            return
        summed = function in (tree.AggregateFunction.SUM, tree.AggregateFunction.AVG)
        kind = self._scope.typing.infer(bound)
        if kind not in (_SUMMED if summed else _ORDERED):
            what = "numbers and durations" if summed else "numbers, times and durations"
            message = f"`{function.value}` takes {what}, and this is of kind {kind.value}"
            self._findings.add("E206", message, node.span)


def top_level(schema: EventSchema) -> list[str]:
    """List the columns that are not part of another one."""
    structures = {column.name for column in schema.columns if column.kind is ValueKind.OTHER}
    return [
        name
        for name in schema.names
        if not any(name.startswith(f"{whole}.") for whole in structures)
    ]
