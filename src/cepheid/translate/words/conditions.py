"""Conditions and values of SQL-like languages in, those of Cepheid out, word by word.

Only words that mean the same in both are let through; what else there is, is not carried over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from cepheid.expressions.format import format_literal, format_name
from cepheid.translate.translated import CannotTranslateError
from cepheid.translate.words.tokens import Token, Tokens, split, written

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
FUNCTIONS = {
    *AGGREGATES,
    "ABS",
    "CEIL",
    "COALESCE",
    "FLOOR",
    "GREATEST",
    "LEAST",
    "LOWER",
    "NULLIF",
    "SQRT",
    "UPPER",
}
"""Functions that have the same name and meaning."""

WORDS = {
    *("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "DISTINCT"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "INTERVAL", "AS"),
}
MARKS = {"(", ")", ",", ".", "+", "-", "*", "/", "%", "=", "<>", "!=", "<", "<=", ">", ">="}
DIVIDES = "`/` of whole numbers cuts digits in {language}, and is exact here"
MEANS = "AVG of whole numbers cuts digits in {language}, and is exact here"
"""Notes on languages that compute with whole numbers; ``language`` is empty for others."""
UNITS = {
    unit: f"{name}s"
    for name in ("millisecond", "second", "minute", "hour", "day")
    for unit in (name.upper(), f"{name.upper()}S")
} | {"MSEC": "milliseconds", "SEC": "seconds", "MIN": "minutes"}

Name = Callable[[str], str]
"""Write a column by its name, which may be dotted."""


def condition(tokens: Tokens, name: Name, notes: dict[str, None], language: str) -> str:
    """Write a condition or a value.

    Raises
    ------
    CannotTranslateError
        For a function or a mark that is not known to mean the same.
    """
    return written(list(_words(tokens, name, notes, language)))


def _words(tokens: Tokens, name: Name, notes: dict[str, None], language: str) -> Iterator[Token]:
    place = 0
    while place < len(tokens):
        token = tokens[place]
        after = tokens[place + 1] if place + 1 < len(tokens) else Token("END", "")
        if token.kind in ("NAME", "QUOTED") and token.word == "INTERVAL":
            span, place = interval(tokens, place)
            yield Token("NAME", span)
            continue
        if token.kind == "NAME" and after.text == "(" and token.word not in WORDS:
            if token.word not in FUNCTIONS:
                message = f"the function `{token.text}` has no counterpart"
                raise CannotTranslateError(message)
            if token.word == "AVG" and language:
                notes[MEANS.format(language=language)] = None
            yield Token("NAME", token.word)
        elif token.kind in ("NAME", "QUOTED") and token.word not in WORDS:
            parts = [token.text.strip("`")]
            while place + 2 < len(tokens) and tokens[place + 1].text == ".":
                if tokens[place + 2].kind not in ("NAME", "QUOTED"):
                    break
                parts.append(tokens[place + 2].text.strip("`"))
                place += 2
            yield Token("NAME", name(".".join(parts)))
        else:
            like = place > 0 and tokens[place - 1].word == "LIKE"
            yield _other(token, notes, language, like=like)
        place += 1


def _other(token: Token, notes: dict[str, None], language: str, *, like: bool) -> Token:
    if like and (token.kind != "TEXT" or "\\" in token.text):
        message = "LIKE of a text that is no constant, or has a backslash, has no counterpart"
        raise CannotTranslateError(message)
    if token.kind == "TEXT":
        plain = token.text[1:-1].replace("''", "'") if token.text[0] == "'" else token.text[1:-1]
        return Token("TEXT", format_literal(plain))
    if token.kind == "MARK" and token.text not in MARKS:
        message = f"`{token.text}` has no counterpart"
        raise CannotTranslateError(message)
    if token.text == "/" and language:
        notes[DIVIDES.format(language=language)] = None
    return Token(token.kind, token.word or token.text)


def interval(tokens: Tokens, place: int) -> tuple[str, int]:
    """Read ``INTERVAL '10' MINUTE``; return the length of time and the place behind it.

    Raises
    ------
    CannotTranslateError
        If it is of another form.
    """
    parts = tokens[place : place + 3]
    number = parts[1].text.strip("'") if len(parts) > 1 else ""
    unit = UNITS.get(parts[2].word) if len(parts) > 2 else None
    if not number.isdigit() or unit is None:
        message = "an interval is a whole number of milliseconds, seconds, minutes, hours or days"
        raise CannotTranslateError(message)
    return f"{number} {unit}", place + 3


def duration(tokens: Tokens) -> str:
    """Read a length of time such as ``1 hour 30 min``, of one unit; a number alone is in seconds.

    Raises
    ------
    CannotTranslateError
        If it is no such length.
    """
    texts = [token.word or token.text for token in tokens]
    unit = UNITS.get(texts[1]) if len(texts) == 2 else "seconds" if len(texts) == 1 else None
    if unit is None or not texts[0].isdigit():
        message = f"`{written(tokens)}` is no length of time with one unit"
        raise CannotTranslateError(message)
    return f"{texts[0]} {unit}"


def items(tokens: Tokens) -> Iterator[tuple[list[Token], str]]:
    """Yield the values of a list and their names, empty if they have none."""
    for part in split(tokens, ","):
        *value, alias = split(part, "AS") if any(t.word == "AS" for t in part) else [part, []]
        yield (value[0] if value else part), (alias[0].text.strip("`") if alias else "")


def named(text: str, alias: str) -> str:
    """Write a value with its name."""
    return f"{text} AS {format_name(alias)}" if alias else text


def has_aggregate(tokens: Tokens) -> bool:
    """Check whether a value calls an aggregate."""
    pairs = pairwise(tokens)
    return any(one.word in AGGREGATES and two.text == "(" for one, two in pairs)


def conjuncts(tokens: Tokens) -> list[list[Token]]:
    """Cut a condition at AND, but not inside BETWEEN."""
    parts: list[list[Token]] = []
    for part in split(tokens, "AND"):
        if parts and any(t.word == "BETWEEN" for t in parts[-1]) and not _has_and(parts[-1]):
            parts[-1] += [Token("NAME", "AND"), *part]
        else:
            parts.append(part)
    return [part for part in parts if part]


def _has_and(tokens: Tokens) -> bool:
    return any(token.word == "AND" for token in tokens)
