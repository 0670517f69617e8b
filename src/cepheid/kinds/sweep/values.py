"""The values of a SWEEP, and queries with one of them in its place (§16.1, §16.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

import msgspec

from cepheid.events.constants import loses_digits
from cepheid.language import tree
from cepheid.plans.sweep import Parameter, ValuesKind

COMBINATIONS_MAX = 100_000
"""Combinations of values of one query."""

AnyNode = TypeVar("AnyNode", bound=tree.Node)
Constant = tree.Literal | tree.Duration


class Values(NamedTuple):
    """The values of a SWEEP; there may be more than were listed."""

    kind: ValuesKind
    numbers: tuple[int | float | str, ...]
    digits: tuple[str, ...]
    total: int


def values_of(sweep: tree.Sweep) -> Values:
    """List the values of a SWEEP, in order; of too many, the first ones."""
    first = sweep.values[0]
    if isinstance(first, tree.Literal) and isinstance(first.value, str):
        texts = tuple(str(value.value) for value in sweep.values if isinstance(value, tree.Literal))
        return Values(ValuesKind.TEXT, texts, (), len(texts))
    numbers = [_number(value) for value in sweep.values]
    count = len(numbers)
    if sweep.step is not None:
        step = _number(sweep.step)
        begin, end = numbers
        count = int((end - begin) / step) + 1
        numbers = [begin + n * step for n in range(min(count, COMBINATIONS_MAX + 1))]
    if isinstance(first, tree.Duration):
        return Values(ValuesKind.DURATION, tuple(int(n) for n in numbers), (), count)
    given = [v for v in (*sweep.values, sweep.step) if isinstance(v, tree.Literal)]
    if all(isinstance(value.value, int) for value in given):
        return Values(ValuesKind.INTEGER, tuple(int(n) for n in numbers), (), count)
    written = [f"{number:f}" for number in numbers]
    digits = tuple(text if loses_digits(text) else "" for text in written)
    doubles = tuple(float(number) for number in numbers)
    return Values(ValuesKind.DOUBLE, doubles, digits if any(digits) else (), count)


def _number(value: Constant) -> Decimal:
    """Read a number exactly as it was written."""
    if isinstance(value, tree.Duration):
        return Decimal(value.microseconds)
    return Decimal(value.digits or repr(value.value))


def constant(parameter: Parameter, number: int, sweep: tree.Node) -> Constant:
    """Build the constant that stands in the place of a SWEEP, or of another of its values."""
    value = parameter.values[number]
    if parameter.kind is ValuesKind.DURATION:
        return tree.Duration(span=sweep.span, microseconds=int(value))
    digits = parameter.digits[number] if parameter.digits else ""
    return tree.Literal(span=sweep.span, value=value, digits=digits)


def with_values(
    query: AnyNode, parameters: Sequence[Parameter], combination: Mapping[int, int]
) -> AnyNode:
    """Put values in the places of SWEEPs, or of other values of theirs.

    Those that a combination does not name stay as they are.

    Parameters
    ----------
    combination
        For a parameter the number of its value.
    """
    places = {parameters[n].place: (parameters[n], value) for n, value in combination.items()}

    def change(node: tree.Node) -> tree.Node:
        swept = isinstance(node, tree.Sweep | tree.Literal | tree.Duration)
        if swept and node.span.start in places:
            return constant(*places[node.span.start], node)
        if isinstance(node, tree.Window) and isinstance(node.sweep, tree.Duration):
            return msgspec.structs.replace(node, within=node.sweep, sweep=None)
        return node

    changed: Any = tree.transform_node(query, change)
    return changed  # type: ignore[no-any-return]  # a query stays a query
