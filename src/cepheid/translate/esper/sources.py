"""Read the sources after ``from``: a type, its filter, its window and its name."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.translate.translated import CannotTranslateError
from cepheid.translate.words.conditions import duration
from cepheid.translate.words.tokens import Token, Tokens, inside, split, written


class Source(NamedTuple):
    """A stream: its type, filters that all hold, the kind and length of its window, its name.

    ``aligned`` batches begin at whole multiples of their length.
    """

    type: str
    filters: tuple[list[Token], ...] = ()
    window: str = ""
    length: str = ""
    alias: str = ""
    aligned: bool = False


def source_of(tokens: Tokens) -> Source:
    """Read ``Trade(price > 10)#time(10 min) as t``.

    Raises
    ------
    CannotTranslateError
        If it has two windows, or words that are not known.
    """
    type_, place = tokens[0].text, 1
    filters: list[list[Token]] = []
    window, length, aligned = "", "", False
    if place < len(tokens) and tokens[place].text == "(":
        given, place = inside(tokens, place)
        filters = [part for part in split(given, ",") if part]
    while place < len(tokens) and tokens[place].text in ("#", "."):
        if window:
            message = "two windows of a stream have no counterpart"
            raise CannotTranslateError(message)
        place += 1
        if tokens[place + 1].text == ":":  # The older way to write it: `.win:time(…)`.
            place += 2
        window, place = tokens[place].word, place + 1
        given = []
        if place < len(tokens) and tokens[place].text == "(":
            given, place = inside(tokens, place)
        length, aligned = _length(window, given)
    rest = [token for token in tokens[place:] if token.word != "AS"]
    if len(rest) > 1 or any(token.kind != "NAME" for token in rest):
        message = f"`{written(tokens)}` is no stream that is carried over"
        raise CannotTranslateError(message)
    return Source(type_, tuple(filters), window, length, rest[0].text if rest else "", aligned)


def _length(window: str, given: Tokens) -> tuple[str, bool]:
    first, *more = split(given, ",")
    if window in ("TIME", "TIME_BATCH"):
        start = written(more[0]).upper().replace(" ", "") if more else ""
        if len(more) > (window == "TIME_BATCH") or (more and start not in ("0L", "0")):
            message = f"`#{window.lower()}` with a start has no counterpart"
            raise CannotTranslateError(message)
        return duration(first), bool(more)
    if window in ("LENGTH", "LENGTH_BATCH") and len(first) == 1 and first[0].text.isdigit():
        return f"{first[0].text} EVENTS", False
    if window == "KEEPALL":
        return "", False
    message = f"`#{window.lower()}` has no counterpart"
    raise CannotTranslateError(message)
