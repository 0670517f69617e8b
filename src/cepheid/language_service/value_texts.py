"""Values of columns, written as constants of the language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cepheid.language.lalr import Token
from cepheid.language_service.answers import CompletionKind

VALUES_MAX = 50
VALUE_LENGTH_MAX = 200
"""Longer texts are not offered."""


def values_for(
    tokens: list[Token], values: Mapping[str, Sequence[object]], *, quoted: bool
) -> Iterator[tuple[str, CompletionKind, str, str, str]]:
    """Yield the values of the column that is compared at the end of tokens.

    With ``quoted``, a quote has been opened, so only texts fit.
    """
    path = _compared(tokens)
    column = next((one for one in (".".join(path), ".".join(path[1:])) if one in values), "")
    for value in list(values.get(column, ()))[:VALUES_MAX] if column else ():
        text = written(value)
        if text is not None and (not quoted or text.startswith("'")):
            yield text, CompletionKind.VALUE, text, f"value of {column}", "§4.6"


def written(value: object) -> str | None:
    """Write a value as a constant; None if it has no form that can be typed.

    Examples
    --------
    >>> written("it's"), written(5), written(True), written(None)
    ("'it''s'", '5', 'TRUE', None)
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return repr(value) if value == value and abs(value) < 1e300 else None
    if isinstance(value, str) and len(value) <= VALUE_LENGTH_MAX and value.isprintable():
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return None


def _compared(tokens: list[Token]) -> list[str]:
    """Find the attribute that a comparison or list at the end of tokens is about, as a path."""
    place = len(tokens) - 1
    if place >= 0 and tokens[place].type in ("LPAR", "COMMA"):
        while place >= 0 and tokens[place].type in ("COMMA", "STRING", "NUMBER", "LPAR"):
            place -= 1
        if place < 0 or tokens[place].type != "IN":
            return []
    if place < 1 or tokens[place].type not in ("COMPARE", "IN", "LIKE"):
        return []
    place -= 1 + (tokens[place - 1].type == "NOT")
    path: list[str] = []
    while place >= 0 and tokens[place].type == "NAME":
        path.insert(0, str(tokens[place]))
        if place < 1 or tokens[place - 1].type != "DOT":
            break
        place -= 2
    return path
