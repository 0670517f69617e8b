"""The condition of a rule of Sigma in, a condition of the language out."""

from __future__ import annotations

import re
from typing import Any

from sigma import conditions

from cepheid.translate.sigma.values import ValueWriter
from cepheid.translate.translated import CannotTranslateError


def write_condition(node: Any, writer: ValueWriter) -> str:
    """Write a condition, which is true, false or NULL; NULL stands for false."""
    match node:
        case conditions.ConditionFieldEqualsValueExpression(field=field, value=value):
            return writer.beside_field(field, value)
        case conditions.ConditionValueExpression(value=value):
            return writer.anywhere(value)
        case conditions.ConditionNOT(args=[operand]):
            return _negated(write_condition(operand, writer))
        case conditions.ConditionAND(args=operands):
            return _joined("AND", [write_condition(one, writer) for one in operands])
        case conditions.ConditionOR(args=operands):
            return _joined("OR", [write_condition(one, writer) for one in operands])
    message = "a condition without anything to look for has no counterpart"
    raise CannotTranslateError(message)


_EQUAL = re.compile(r"\((\S+|LOWER\(\S+\)) = ('(?:[^'\\]|'')*'|-?[0-9.]+)\)")


def _in_lists(parts: list[str]) -> list[str]:
    """Write equalities of one column as a list; the order of OR does not matter."""
    found: dict[str, list[str]] = {}
    for part in parts:
        equal = _EQUAL.fullmatch(part)
        found.setdefault(equal[1] if equal else "", []).append(equal[2] if equal else part)
    lists = [
        f"({column} = {values[0]})" if len(values) == 1 else f"({column} IN ({', '.join(values)}))"
        for column, values in found.items()
        if column
    ]
    return [*lists, *found.get("", [])]


def _joined(word: str, parts: list[str]) -> str:
    unique = list(dict.fromkeys(parts))
    if word == "OR":
        unique = _in_lists(unique)
    return unique[0] if len(unique) == 1 else f"({f' {word} '.join(unique)})"


def _negated(condition: str) -> str:
    """Write that a condition is false or NULL."""
    return f"(NOT COALESCE({condition}, FALSE))"
