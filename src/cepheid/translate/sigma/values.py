r"""A value of Sigma beside a field in, a condition of the language out.

Sigma has two truth values: a field that is missing meets no condition but that it is null. Here
such a condition is NULL, which selects as little; what stands below a NOT is made FALSE there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sigma import types

from cepheid.errors import DataError
from cepheid.expressions.format import format_literal
from cepheid.expressions.match_functions import regex_matcher
from cepheid.translate.sigma.names import NUMBERS, TEXT, Names
from cepheid.translate.translated import CannotTranslateError

_WILD = {types.SpecialChars.WILDCARD_MULTI: "%", types.SpecialChars.WILDCARD_SINGLE: "_"}
_OPERATORS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NEQ": "<>"}
_FLAGS = {"IGNORECASE": "i", "MULTILINE": "m", "DOTALL": "s"}
_PARTS = ("MINUTE", "HOUR", "DAY", "MONTH", "YEAR")
_ENDS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$(?=[|)]|$)|.", re.DOTALL)


class ValueWriter:
    """Writes values beside the columns of one log; ``notes`` collects what to know of them."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.notes: dict[str, None] = {}

    def beside_field(self, field: str, value: types.SigmaType) -> str:
        """Write that a field has a value."""
        column, kind = self._names.column(field), self._names.type_of(field)
        match value:
            case types.SigmaExpansion(values=values):
                return f"({' OR '.join(self.beside_field(field, one) for one in values)})"
            case types.SigmaNull():
                return f"({column} IS NULL)"
            case types.SigmaExists(exists=exists):
                self.notes[
                    "a field that exists and is null is taken for one that does not exist"
                ] = None
                return f"({column} IS {'NOT ' if exists else ''}NULL)"
            case types.SigmaFieldReference():
                return self._other_field(field, value)
            case types.SigmaTimestampPart(timestamp_part=part, number=number):
                return f"({_part(part.name, column)} = {number})"
            case types.SigmaCompareExpression():
                return self._compared(column, kind, value)
            case types.SigmaBool(boolean=boolean):
                return _truth(column, kind, is_true=boolean)
            case types.SigmaNumber(number=number):
                return _number(column, kind, number)
        return self._in_text(_as_text(column, kind), value)

    def anywhere(self, value: types.SigmaType) -> str:
        """Write that a text of the event contains a value."""
        if isinstance(value, types.SigmaExpansion):
            return f"({' OR '.join(map(self.anywhere, value.values))})"
        if isinstance(value, types.SigmaNumber):
            value = types.SigmaString(str(value.number))
        if isinstance(value, types.SigmaString):
            many = types.SpecialChars.WILDCARD_MULTI
            value = value if value.startswith(many) else many + value
            value = value if value.endswith(many) else value + many
        elif not isinstance(value, types.SigmaRegularExpression):
            message = f"a keyword without a field is {_called(value)}"
            raise CannotTranslateError(message)
        columns = self._names.searched()
        return f"({' OR '.join(self._in_text(column, value) for column in columns)})"

    def _in_text(self, text: str, value: types.SigmaType) -> str:
        match value:
            case types.SigmaString():
                return self._string(text, value)
            case types.SigmaRegularExpression():
                return f"REGEX_MATCH({text}, {format_literal(_regex(value))})"
            case types.SigmaCIDRExpression(cidr=cidr):
                return f"IN_NETWORK({text}, {format_literal(cidr)})"
        message = f"{_called(value)} has no counterpart"
        raise CannotTranslateError(message)

    def _string(self, text: str, value: types.SigmaString) -> str:
        if value.contains_placeholder():
            return f"({' OR '.join(self._string(text, one) for one in self._filled(value))})"
        cased = isinstance(value, types.SigmaCasedString)
        parts: list[Any] = list(value.s)
        if not cased:
            text = f"LOWER({text})"
            parts = [part.lower() if isinstance(part, str) else part for part in parts]
        if all(isinstance(part, str) for part in parts):
            return f"({text} = {format_literal(''.join(parts))})"
        pattern = "".join(
            re.sub(r"([\\%_])", r"\\\1", part) if isinstance(part, str) else _WILD[part]
            for part in parts
        )
        return f"({text} LIKE {format_literal(pattern)})"

    def _filled(self, value: types.SigmaString) -> list[types.SigmaString]:
        """Put the values of placeholders in their places."""
        known = self._names.settings.placeholders

        def values(placeholder: types.Placeholder) -> Iterator[str]:
            if placeholder.name not in known:
                message = (
                    f"the placeholder `%{placeholder.name}%` has no values: list them under "
                    f"`placeholders` in a mapping"
                )
                raise CannotTranslateError(message)
            yield from known[placeholder.name]

        return value.replace_placeholders(values)

    def _compared(self, column: str, kind: str, value: types.SigmaCompareExpression) -> str:
        operator = _OPERATORS[value.op.name]
        number = value.number
        if isinstance(number, types.SigmaTimestampPart):
            return f"({_part(number.timestamp_part.name, column)} {operator} {number.number})"
        if kind == TEXT:
            column = f"TRY_CAST({column} AS DOUBLE)"
        return f"({column} {operator} {format_literal(number.number)})"

    def _other_field(self, field: str, value: types.SigmaFieldReference) -> str:
        """Write that a field equals another, or begins or ends with it, whatever the case."""
        kinds = [self._names.type_of(one) for one in (field, value.field)]
        one, two = (self._names.column(name) for name in (field, value.field))
        if not (value.starts_with or value.ends_with) and TEXT not in kinds:
            if "" in kinds:
                self.notes[f"texts of {field} and {value.field} are compared by case"] = None
            return f"({one} = {two})"
        one, two = (f"LOWER({_as_text(c, k)})" for c, k in zip((one, two), kinds, strict=True))
        if value.starts_with and value.ends_with:
            shorter = f"LENGTH(REPLACE({one}, {two}, '')) < LENGTH({one})"
            return f"(LENGTH({two}) = 0 OR {shorter})"
        if value.starts_with:
            return f"STARTS_WITH({one}, {two})"
        if value.ends_with:
            return f"(LENGTH({two}) = 0 OR SUBSTRING({one}, -LENGTH({two})) = {two})"
        return f"({one} = {two})"


def _as_text(column: str, kind: str) -> str:
    if kind in ("", TEXT):
        return column
    if kind in ("integer", "boolean"):
        return f"CAST({column} AS STRING)"
    message = f"a text is compared with `{column}`, which is of type {kind}"
    raise CannotTranslateError(message)


def _truth(column: str, kind: str, *, is_true: bool) -> str:
    if kind == TEXT:
        return f"(LOWER({column}) = '{str(is_true).lower()}')"
    if kind in NUMBERS:
        message = f"a truth value is compared with `{column}`, which is of type {kind}"
        raise CannotTranslateError(message)
    return f"({column} = {str(is_true).upper()})"


def _number(column: str, kind: str, number: float) -> str:
    if kind == TEXT:
        return f"({column} = '{format_literal(number)}')"
    if kind and kind not in NUMBERS:
        message = f"a number is compared with `{column}`, which is of type {kind}"
        raise CannotTranslateError(message)
    return f"({column} = {format_literal(number)})"


def _part(name: str, column: str) -> str:
    if name not in _PARTS:
        message = f"the modifier `{name.lower()}` has no counterpart"
        raise CannotTranslateError(message)
    return f"{name}({column})"


def _regex(value: types.SigmaRegularExpression) -> str:
    r"""Write a regular expression for RE2; a `$` at the end may stand before a last line break."""
    pattern = str(value.to_plain())
    flags = {_FLAGS[flag.name] for flag in value.flags}
    if "m" not in flags:
        pattern = _ENDS.sub(lambda m: r"(?:\n?\z)" if m[0] == "$" else m[0], pattern)
    if flags:
        pattern = f"(?{''.join(sorted(flags))}){pattern}"
    try:
        regex_matcher(pattern)
    except DataError as error:
        raise CannotTranslateError(error.diagnostics[0].message) from None
    return pattern


def _called(value: types.SigmaType) -> str:
    return f"a value of the kind {type(value).__name__.removeprefix('Sigma')}"
