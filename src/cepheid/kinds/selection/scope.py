"""Resolve the names of a SELECT: the column and the stream that each word refers to."""

from __future__ import annotations

from collections.abc import Mapping

from cepheid.errors import suggest_names
from cepheid.events.schema import EventSchema, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.expressions.value_types import Typing
from cepheid.kinds.selection.plain import bind_plain
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.plans.selection import SKETCHED


class SelectScope:
    """The streams of a SELECT and their columns."""

    def __init__(
        self,
        streams: tuple[tree.Stream, ...],
        schemas: Mapping[str, EventSchema | None],
        findings: Findings,
    ) -> None:
        self.streams = streams
        self.schemas = schemas
        self.findings = findings
        self.typing = Typing(self._kind_of, findings)
        self._only = streams[0].alias if len(streams) == 1 else None

    def condition(self, expression: tree.Expression | None, clause: str) -> tree.Expression | None:
        """Bind WHERE or ON: look up all names and check kinds."""
        if expression is None:
            return None
        if self._only is not None:
            plain = bind_plain(expression, self._only, self.schemas[self._only.text])
            if plain is not None:
                return plain
        bound = self.bind(expression, clause)
        self.typing.check_condition(bound, clause)
        return bound

    def value(self, expression: tree.Expression) -> tree.Expression:
        """Bind and check an expression of the list of SELECT."""
        bound = self.bind(expression, "SELECT")
        self.typing.infer(bound)
        return bound

    def column(self, name: tree.Name) -> tree.Attribute:
        """Bind a column that stands without an expression around it: ``zone``, ``o.zone``."""
        owner, _, path = name.text.partition(".")
        expression: tree.Expression = tree.Word(span=name.span, text=name.text)
        if path and (owner in self.schemas or len(self.streams) > 1):
            variable = tree.Name(span=name.span, text=owner)
            attribute = tree.Name(span=name.span, text=path)
            expression = tree.Attribute(span=name.span, variable=variable, attribute=attribute)
        found = self.bind(expression, "GROUP BY")
        assert isinstance(found, tree.Attribute), "a name is an attribute"
        return found

    def bind(self, expression: tree.Expression, clause: str) -> tree.Expression:
        """Bind an expression: give every attribute the alias of its stream."""
        for node in tree.walk(expression):
            if isinstance(node, tree.Aggregate) or (
                isinstance(node, tree.Call) and node.function in _AGGREGATES
            ):
                message = (
                    f"`{clause}` tests single events, so it cannot use `{format_expression(node)}`"
                )
                self.findings.add("E331", message, node.span)
            elif isinstance(node, tree.Equivalence) or (
                isinstance(node, tree.Attribute) and node.anchor is not tree.Anchor.EACH
            ):
                message = f"`{format_expression(node)}` refers to matches, but a `SELECT` has none"
                self.findings.add("E331", message, node.span, "write a query with `PATTERN`")
        return tree.transform(expression, self._look_up)

    def _look_up(self, node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Call) and node.function in _AGGREGATES:
            return tree.Literal(span=node.span, value=None)  # Reported already.
        if isinstance(node, tree.Word):
            alias = self._only or self._owner(node)
            name = tree.Name(span=node.span, text=node.text)
            return tree.Attribute(span=node.span, variable=alias, attribute=name)
        if not isinstance(node, tree.Attribute) or node.variable.text in self.schemas:
            return node
        if self._only is None:
            message = f"no stream of the query is called `{node.variable.text}`"
            near = suggest_names(node.variable.text, list(self.schemas), owner="FROM")
            self.findings.add("E202", message, node.variable.span, near)
            return node
        # A field of a structure: `address.city`.
        path = f"{node.variable.text}.{node.attribute.text}"
        name = tree.Name(span=node.span, text=path)
        return tree.Attribute(span=node.span, variable=self._only, attribute=name)

    def _owner(self, word: tree.Word) -> tree.Name:
        """Find the only stream that has a column; report ambiguous and unknown names."""
        if None in self.schemas.values():
            return self.streams[0].alias  # Known when the streams are.
        having = [
            stream.alias
            for stream in self.streams
            if (schema := self.schemas[stream.alias.text]) is not None
            and schema.kind(word.text) is not None
        ]
        if len(having) == 1 or self.streams[0].alias == self.streams[1].alias:
            return having[0] if having else self.streams[0].alias
        if not having:
            return self.streams[0].alias  # Its kind is asked for next, and reported.
        *others, last = (f"`{alias.text}.{word.text}`" for alias in having)
        help_ = f"write {', '.join(others)} or {last}"
        message = f"`{word.text}` is ambiguous: it does not name its stream"
        self.findings.add("E208", message, word.span, help_)
        return self.streams[0].alias

    def _kind_of(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        if not isinstance(node, tree.Attribute):
            return ValueKind.UNKNOWN
        return self.attribute_kind(node.variable.text, node.attribute)

    def attribute_kind(self, alias: str, name: tree.Name) -> ValueKind:
        """Look up the kind of a column, or report that the stream has none of this name."""
        schema = self.schemas.get(alias)
        if schema is None:
            return ValueKind.UNKNOWN
        kind = schema.kind(name.text)
        if kind is None:
            message = f"the stream has no attribute `{name.text}`"
            near = suggest_names(name.text, schema.names, owner="the stream")
            self.findings.add("E201", message, name.span, near, label="not in the schema")
            return ValueKind.UNKNOWN
        return kind


_AGGREGATES = frozenset(
    {*(f.value for f in tree.AggregateFunction), "MEDIAN", "PERCENTILE", *SKETCHED}
)
