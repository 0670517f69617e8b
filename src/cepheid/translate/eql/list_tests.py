"""Conditions of EQL on lists of texts in, those of the language out: one text has to meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepheid.translate.eql import tree
from cepheid.translate.eql.lists import called, exactly, of_length, regex, wildcard
from cepheid.translate.translated import CannotTranslateError

if TYPE_CHECKING:
    from cepheid.translate.eql.expressions import Writer

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def write_list_test(writer: Writer, test: tree.Expression) -> str | None:
    """Write a condition on the texts of a list, or on the one at a place; None if it is none."""
    match test:
        case tree.Binary(operator=operator, left=left, right=right) if operator in _TURNED:
            if isinstance(left, tree.Literal):
                operator, left, right = _TURNED[operator], right, left
            value = right.value if isinstance(right, tree.Literal) else None
            return _compared(writer, operator, left, value)
        case tree.OneOf(operand=operand) if writer.compares_list(operand):
            return _one_of(writer, test)
        case tree.Call(name=name, arguments=(operand, *_)) if writer.compares_list(operand):
            texts = called(test, writer.one_letter)
            if name.lower() in ("arraycontains", "arraysearch") or not texts:
                return None
            return writer.in_list(operand, texts, any_case=test.any_case or writer.ignores_case)
    return None


def _compared(writer: Writer, operator: str, left: tree.Expression, value: object) -> str | None:
    any_case = writer.ignores_case
    match left, value:
        case tree.Call(name=name, arguments=(operand,)), int(length) if (
            name.lower() == "length" and writer.any_of_list(operand)
        ):
            return writer.in_list(operand, of_length(operator, length), any_case=False)
        case tree.Field(), str(text) if writer.compares_list(left):
            if operator not in ("==", "!="):
                message = f"`{operator}` with texts of a list has no counterpart"
                raise CannotTranslateError(message)
            fits = wildcard(text, "") if writer.has_wildcards else exactly(text)
            found = writer.in_list(left, [fits], any_case=any_case)
            return found if operator == "==" else f"(NOT {found})"
    return None


def _one_of(writer: Writer, test: tree.OneOf) -> str:
    texts = [item.value for item in test.items if isinstance(item, tree.Literal)]
    if len(texts) < len(test.items) or not all(isinstance(text, str) for text in texts):
        message = f"`{test.operator}` of a list with anything but texts has no counterpart"
        raise CannotTranslateError(message)
    fits = [_fit(test.operator, str(text), writer.one_letter) for text in texts]
    return writer.in_list(test.operand, fits, any_case=test.any_case or writer.ignores_case)


def _fit(operator: str, text: str, one: str) -> str:
    if operator == "regex":
        return regex(text)
    return exactly(text) if operator == "in" else wildcard(text, one)
