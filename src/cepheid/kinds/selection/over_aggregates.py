"""Bind expressions over aggregated rows: HAVING, and columns computed with aggregates (§10.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cepheid.errors import suggest_names
from cepheid.events.schema import ValueKind
from cepheid.expressions.format import format_expression
from cepheid.expressions.tree import children, with_children
from cepheid.expressions.value_types import Typing
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.plans.selection import pair_column, row_column


class RowScope:
    """The columns of aggregated rows, by the names that a query has for them.

    Parameters
    ----------
    names
        The column of every name, and the kind of its values.
    aggregate
        Plans an aggregate, and gives its column and the kind of its values.
    """

    def __init__(
        self,
        names: Mapping[str, tuple[tree.Expression, ValueKind]],
        aggregate: Callable[[tree.Expression], tuple[str, ValueKind] | None],
        is_aggregate: Callable[[tree.Node], bool],
        findings: Findings,
    ) -> None:
        self._names = dict(names)
        self._aggregate = aggregate
        self._is_aggregate = is_aggregate
        self._findings = findings
        self._kinds: dict[str, ValueKind] = {}
        self.typing = Typing(self._kind_of, findings)

    def add(self, name: str, expression: tree.Expression) -> None:
        """Let later expressions name a column that is computed."""
        self._names.setdefault(name, (expression, self.typing.infer(expression)))

    def bind(self, expression: tree.Expression, clause: str) -> tree.Expression:
        """Replace aggregates and names by columns of the rows."""
        if self._is_aggregate(expression):
            return self._column_of(expression)
        if isinstance(expression, tree.Word):
            return self._named(expression.text, expression, clause)
        if isinstance(expression, tree.Attribute):
            if expression.anchor is not tree.Anchor.EACH:
                self._refuse(expression)
            whole = pair_column(expression)
            name = whole if whole in self._names else expression.attribute.text
            return self._named(name, expression, clause)
        if isinstance(expression, tree.Equivalence):
            self._refuse(expression)
            return tree.Literal(span=expression.span, value=None)
        inner = tuple(self.bind(child, clause) for child in children(expression))
        return with_children(expression, inner) if inner else expression

    def _refuse(self, node: tree.Expression) -> None:
        message = f"`{format_expression(node)}` refers to matches, but a `SELECT` has none"
        self._findings.add("E331", message, node.span, "write a query with `PATTERN`")

    def _column_of(self, node: tree.Expression) -> tree.Expression:
        planned = self._aggregate(node)
        if planned is None:
            return tree.Literal(span=node.span, value=None)  # Reported already.
        self._kinds[planned[0]] = planned[1]
        return row_column(planned[0], node.span)

    def _named(self, name: str, node: tree.Expression, clause: str) -> tree.Expression:
        if name in self._names:
            found, kind = self._names[name]
            if isinstance(found, tree.Attribute):
                self._kinds[found.attribute.text] = kind
            return tree.replace_span(found, node.span)
        written = format_expression(node)
        if clause != "SELECT":
            message = f"`{clause}` is about rows, and no column of theirs is called `{written}`"
            near = suggest_names(name, list(self._names), owner="a row")
            self._findings.add("E211", message, node.span, near)
        else:
            message = f"`{written}` is neither grouped nor aggregated"
            self._findings.add("E210", message, node.span, f"add `GROUP BY {name}`")
        return tree.Literal(span=node.span, value=None)

    def _kind_of(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        if not isinstance(node, tree.Attribute):
            return ValueKind.UNKNOWN
        return self._kinds.get(node.attribute.text, ValueKind.UNKNOWN)
