"""Conditions in, tests out: equal conditions are one test, and each knows what it reads.

Thousands of rules ask for tens of thousands of comparisons, most of which no event meets. So a
comparison is known by its parts, and made ready to be evaluated when an event comes near.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from cepheid.errors import Span
from cepheid.kernels.grams import WHOLE
from cepheid.kinds.workload.needles import needles_in, needles_like, place_like
from cepheid.language import tree

LOWERED = "LOWER\0"
"""Prefix of the name of a column whose texts are wanted in lower case."""


class Test:
    """A condition: on one ``column``, on several, or ``AND``, ``OR`` and ``NOT`` of others.

    Parameters
    ----------
    number
        What it is known by.
    condition
        The condition as it stands in a query.
    operator, operands
        AND, OR or NOT, and the tests that it joins.
    column
        The only column that it reads, if there is one.
    searched, needles
        The column of text, which may be one in lower case, and the texts of which each value that
        meets the condition has one in it.
    place
        Where the needle is to stand, if that is all: 0 for anywhere; -1 if there is more to it.
    """

    def __init__(
        self,
        number: int,
        condition: tree.Expression,
        operator: str = "",
        operands: tuple[Test, ...] = (),
        column: str = "",
        searched: str = "",
        needles: frozenset[bytes] = frozenset(),
        place: int = -1,
    ) -> None:
        self.number, self._condition = number, condition
        self.operator, self.operands = operator, operands
        self.column, self.searched, self.needles = column, searched, needles
        self.place = place

    @cached_property
    def expression(self) -> tree.Expression:
        """Return the condition with texts in lower case as columns, which are computed once."""
        return _prepared(self._condition)


ALWAYS = Test(-1, tree.Literal(span=Span(0, 0), value=True))
"""What is true of every event."""


class ConditionTable:
    """Takes conditions apart; equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[object, Test] = {}

    def of(self, expression: tree.Expression) -> Test:
        """Take a condition apart."""
        if type(expression) is tree.Logical:
            return self._combined(expression, expression.operator, expression.operands)
        if type(expression) is tree.Unary:
            inner = _certain(expression)
            if inner is not None:
                return self._combined(expression, "NOT", (inner,))
        key = _parts_of(expression)
        if key is None:
            known = self._known.get(expression)  # To hash an expression takes a while.
            if known is None:
                known = self._known[expression] = _other(len(self._known), expression)
            return known
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _compared(len(self._known), expression, key)
        return known

    def _combined(
        self, expression: tree.Expression, operator: str, parts: tuple[tree.Expression, ...]
    ) -> Test:
        operands = tuple([self.of(part) for part in parts])
        key = (operator, *[one.number for one in operands])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Test(len(self._known), expression, operator, operands)
        return known


Guard = frozenset[tuple[str, bytes]]
"""Columns with a needle each: events that have none of them do not meet a condition."""


def guards_of(tests: Iterable[Test]) -> list[Guard]:
    """Collect the guards of conditions that are to be met together; of each, one must be seen."""
    guards: list[Guard] = []
    for test in tests:
        if test.needles:
            guards.append(frozenset((test.searched, needle) for needle in test.needles))
        elif test.operator == "AND":
            guards += guards_of(test.operands)
        elif test.operator == "OR":
            ways = [guards_of((one,)) for one in test.operands]
            if all(ways):
                guards.append(frozenset[tuple[str, bytes]]().union(*(way[0] for way in ways)))
    return guards


_Parts = tuple[str, str, Any, str]
"""A comparison of a column with constants: the column, the operator, constants, an escape."""


def _parts_of(condition: tree.Expression) -> _Parts | None:
    """Return the parts of a comparison of one column with constants; None of other conditions."""
    kind = type(condition)
    if kind is tree.Like:
        assert isinstance(condition, tree.Like)
        column, pattern = _searched(condition.operand), condition.pattern
        if column and type(pattern) is tree.Literal and type(pattern.value) is str:
            operator = "NOT LIKE" if condition.negated else "LIKE"
            return column, operator, pattern.value, condition.escape
    elif kind is tree.Binary:
        assert isinstance(condition, tree.Binary)
        left, right = condition.left, condition.right
        if type(left) is tree.Literal and condition.operator == "=":
            left, right = right, left
        column = _searched(left)
        if column and type(right) is tree.Literal:
            return column, condition.operator, _constant(right), ""
    elif kind is tree.InList:
        assert isinstance(condition, tree.InList)
        column, items = _searched(condition.operand), condition.items
        if column and all(type(item) is tree.Literal for item in items):
            operator = "NOT IN" if condition.negated else "IN"
            return column, operator, tuple([_constant(item) for item in items]), ""
    return None


def _searched(operand: tree.Expression) -> str:
    """Return the name of a column, or of one in lower case; an empty one for other operands."""
    if type(operand) is tree.Call and operand.function == "LOWER":
        (argument,) = operand.arguments
        if type(argument) is tree.Attribute:
            return LOWERED + argument.attribute.text
    return operand.attribute.text if type(operand) is tree.Attribute else ""


def _constant(literal: Any) -> tuple[type, object, str]:
    """Tell constants apart: a literal 1 is not the literal 1.0 or TRUE, although Python says so."""
    return type(literal.value), literal.value, literal.digits


def _compared(number: int, condition: tree.Expression, parts: _Parts) -> Test:
    searched, operator, constants, escape = parts
    needles, place = frozenset[bytes](), WHOLE
    if operator == "LIKE":
        needles, place = needles_like(constants, escape), place_like(constants, escape)
    elif operator == "=":
        needles = needles_in([constants[1]])
    elif operator == "IN":
        needles = needles_in([one[1] for one in constants])
    column = searched.removeprefix(LOWERED)
    return Test(number, condition, column=column, searched=searched, needles=needles, place=place)


def _other(number: int, condition: tree.Expression) -> Test:
    """Make a test of a condition of which only the columns matter."""
    read = {n.attribute.text for n in tree.walk(condition) if isinstance(n, tree.Attribute)}
    return Test(number, condition, column=read.pop() if len(read) == 1 else "")


_NAME = tree.Name(span=Span(0, 0), text="_")


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


def _certain(expression: tree.Unary) -> tree.Expression | None:
    """Return the condition of ``NOT COALESCE(condition, FALSE)``: true where it is not."""
    call = expression.operand
    if expression.operator != "NOT" or not isinstance(call, tree.Call):
        return None
    if call.function != "COALESCE" or len(call.arguments) != 2:
        return None
    inner, default = call.arguments
    return inner if isinstance(default, tree.Literal) and default.value is False else None
