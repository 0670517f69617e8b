"""Bind a condition that compares columns with constants, and nothing else, in one pass.

Thousands of rules have such conditions, and to walk them once for each thing that may be wrong with
them would take most of the time in which rules are read. Whatever is at fault, or of another form,
is left to ``scope.py``, which knows what to tell about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepheid.events.schema import NUMERIC, EventSchema, ValueKind
from cepheid.expressions.value_types import family_of
from cepheid.language import tree

_UNKNOWN = ValueKind.UNKNOWN
_TEXT = frozenset({ValueKind.TEXT, _UNKNOWN})
_FITTING: dict[type, frozenset[ValueKind]] = {
    str: _TEXT,
    int: NUMERIC | {_UNKNOWN},
    bool: frozenset({ValueKind.BOOLEAN, _UNKNOWN}),
}
"""The kinds of columns that a constant is compared with as it is."""

_OF_TEXT = frozenset({"REGEX_MATCH", "IN_NETWORK"})
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


class _NotPlainError(Exception):
    """The condition is of another form, or something is wrong with it."""


def bind_plain(
    condition: tree.Expression, alias: tree.Name, schema: EventSchema | None
) -> tree.Expression | None:
    """Give every column of a condition the alias of its stream; None if it is no plain one.

    Parameters
    ----------
    condition
        What follows WHERE.
    alias
        The name of the only stream.
    schema
        The columns of the stream, if they are known.
    """
    try:
        return _Binding(alias, schema).condition(condition)
    except _NotPlainError:
        return None


class _Binding:
    def __init__(self, alias: tree.Name, schema: EventSchema | None) -> None:
        self._alias, self._schema = alias, schema
        self._kinds: dict[str, ValueKind] = {}

    def condition(self, node: tree.Expression) -> tree.Expression:
        """Bind a condition."""
        bind = _CONDITIONS.get(type(node))
        if bind is None:
            raise _NotPlainError
        return bind(self, node)

    def logical(self, node: tree.Logical) -> tree.Expression:
        """Bind the operands of AND and OR."""
        operands = tuple([self.condition(one) for one in node.operands])
        return tree.Logical(span=node.span, operator=node.operator, operands=operands)

    def negation(self, node: tree.Unary) -> tree.Expression:
        """Bind what follows NOT."""
        if node.operator != "NOT":
            raise _NotPlainError
        return tree.Unary(span=node.span, operator="NOT", operand=self.condition(node.operand))

    def call(self, node: tree.Call) -> tree.Expression:
        """Bind ``COALESCE(condition, FALSE)``, and a test of a text by a constant."""
        first, *others = node.arguments or (None,)
        if type(node) is not tree.Call or len(others) != 1 or first is None:
            raise _NotPlainError
        (other,) = others
        if not isinstance(other, tree.Literal):
            raise _NotPlainError
        if node.function == "COALESCE" and type(other.value) is bool:
            bound = self.condition(first)
        elif node.function in _OF_TEXT and type(other.value) is str:
            bound = self._operand(first, _TEXT)
        else:
            raise _NotPlainError
        return tree.Call(span=node.span, function=node.function, arguments=(bound, other))

    def like(self, node: tree.Like) -> tree.Expression:
        """Bind LIKE with a constant."""
        pattern = node.pattern
        if not isinstance(pattern, tree.Literal) or type(pattern.value) is not str:
            raise _NotPlainError
        return tree.Like(
            span=node.span,
            operand=self._operand(node.operand, _TEXT),
            pattern=pattern,
            negated=node.negated,
            escape=node.escape,
        )

    def comparison(self, node: tree.Binary) -> tree.Expression:
        """Bind a comparison of a column with a constant or a column."""
        if node.operator not in _COMPARISONS:
            raise _NotPlainError
        right = node.right
        if isinstance(right, tree.Literal):
            left = self._operand(node.left, _fitting(right))
        else:
            left, right = self._value(node.left), self._value(right)
            kinds = [self._kind(left), self._kind(right)]
            alike = len({family_of(kind) for kind in kinds}) == 1
            if _UNKNOWN not in kinds and (not alike or ValueKind.OTHER in kinds):
                raise _NotPlainError
        return tree.Binary(span=node.span, operator=node.operator, left=left, right=right)

    def listed(self, node: tree.InList) -> tree.Expression:
        """Bind IN with constants."""
        fitting: frozenset[ValueKind] | None = None
        for item in node.items:
            if not isinstance(item, tree.Literal):
                raise _NotPlainError
            own = _fitting(item)
            fitting = own if fitting is None else fitting & own
        operand = self._operand(node.operand, fitting or _TEXT)
        return tree.InList(span=node.span, operand=operand, items=node.items, negated=node.negated)

    def null(self, node: tree.IsNull) -> tree.Expression:
        """Bind IS NULL."""
        return tree.IsNull(span=node.span, operand=self._value(node.operand), negated=node.negated)

    def _operand(self, node: tree.Expression, fitting: frozenset[ValueKind]) -> tree.Expression:
        """Bind a column, or LOWER of one, whose kind fits what it is compared with."""
        found = self._value(node)
        if self._kind(found) not in fitting:
            raise _NotPlainError
        return found

    def _kind(self, bound: tree.Expression) -> ValueKind:
        if isinstance(bound, tree.Attribute):
            return self._kinds[bound.attribute.text]
        return ValueKind.TEXT

    def _value(self, node: tree.Expression) -> tree.Expression:
        if type(node) is tree.Word:
            return self._column(node.span, node.text)
        if type(node) is tree.Attribute and node.anchor is tree.Anchor.EACH:
            if node.variable.text == self._alias.text:
                self._know(node.attribute.text)
                return node
            return self._column(node.span, f"{node.variable.text}.{node.attribute.text}")
        if type(node) is tree.Call and node.function == "LOWER" and len(node.arguments) == 1:
            (argument,) = node.arguments
            inner = self._operand(argument, _TEXT)
            if isinstance(inner, tree.Attribute):
                return tree.Call(span=node.span, function="LOWER", arguments=(inner,))
        raise _NotPlainError

    def _column(self, span: Any, text: str) -> tree.Attribute:
        self._know(text)
        name = tree.Name(span=span, text=text)
        return tree.Attribute(span=span, variable=self._alias, attribute=name)

    def _know(self, text: str) -> None:
        """Look up the kind of a column."""
        if text not in self._kinds:
            kind = _UNKNOWN if self._schema is None else self._schema.kind(text)
            if kind is None:
                raise _NotPlainError
            self._kinds[text] = kind


def _fitting(literal: tree.Literal) -> frozenset[ValueKind]:
    fitting = _FITTING.get(type(literal.value))
    if fitting is None:
        raise _NotPlainError
    return fitting


_CONDITIONS: dict[type, Callable[[_Binding, Any], tree.Expression]] = {
    tree.Logical: _Binding.logical,
    tree.Unary: _Binding.negation,
    tree.Call: _Binding.call,
    tree.Like: _Binding.like,
    tree.Binary: _Binding.comparison,
    tree.InList: _Binding.listed,
    tree.IsNull: _Binding.null,
}
