"""Parse streams in shorthand: ``"a1 b2(price=5)"`` becomes a list of events.

This is the notation of the papers and of the golden files. An event is its type, its time in
seconds and, in parentheses, its attributes. A type of one letter is written small and means the
capital; ``_`` stands for an event without a type (§1.2).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

SECOND_US = 1_000_000

_EVENT = re.compile(r"(?P<type>[A-Za-z][A-Za-z_]*|_)(?P<time>-?\d+(?:\.\d+)?)(?P<open>\s*\()?")
_ATTRIBUTE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*(?:\.\w+)*)\s*=\s*")
_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"[^\s,()']+")
_WORDS = {"null": None, "true": True, "false": False, "nan": math.nan, "infinity": math.inf}

Value = bool | int | float | str | None


def stream(text: str) -> list[dict[str, object]]:
    """Parse the events of a text in shorthand.

    Parameters
    ----------
    text
        Events separated by blanks. Values are whole numbers, doubles, ``NaN``, ``'text'`` (a quote
        is doubled), ``true``, ``false`` and ``null``.

    Returns
    -------
    list of dict
        One dictionary an event: ``ts`` in microseconds, ``type`` unless it is ``_``, attributes.

    Raises
    ------
    ValueError
        If the text cannot be read, or an event is earlier than the one before it.

    Examples
    --------
    >>> stream("a1 b2.5(price=5, side='buy')")
    [{'ts': 1000000, 'type': 'A'}, {'ts': 2500000, 'type': 'B', 'price': 5, 'side': 'buy'}]
    >>> stream("Stock3(price=null) _3(x=-0.0)")
    [{'ts': 3000000, 'type': 'Stock', 'price': None}, {'ts': 3000000, 'x': -0.0}]
    """
    events: list[dict[str, object]] = []
    place = _skip_blanks(text, 0)
    while place < len(text):
        event, end = _read_event(text, place)
        if events and int(str(events[-1]["ts"])) > int(str(event["ts"])):
            message = f"an event is earlier than the one before it: {text[place:end]!r}"
            raise ValueError(message)
        events.append(event)
        place = _skip_blanks(text, end)
        if place == end < len(text):
            message = f"expected a blank between two events: {_shown(text, place)}"
            raise ValueError(message)
    return events


def _read_event(text: str, place: int) -> tuple[dict[str, object], int]:
    """Parse the event that starts at a position, and return the position after it."""
    found = _EVENT.match(text, place)
    if found is None:
        message = f"expected an event such as a1 or Stock3(price=9): {_shown(text, place)}"
        raise ValueError(message)
    event: dict[str, object] = {"ts": _microseconds(found["time"])}
    if found["type"] != "_":
        name = found["type"]
        event["type"] = name.upper() if len(name) == 1 else name
    if found["open"] is None:
        return event, found.end()
    return _read_attributes(text, found.end(), event)


def _read_attributes(
    text: str, place: int, event: dict[str, object]
) -> tuple[dict[str, object], int]:
    """Add the attributes up to the closing parenthesis to an event."""
    while True:
        name = _ATTRIBUTE.match(text, place)
        if name is None:
            message = f"expected an attribute such as price=5: {_shown(text, place)}"
            raise ValueError(message)
        if name["name"] in event:
            message = f"`{name['name']}` is given twice: {_shown(text, place)}"
            raise ValueError(message)
        event[name["name"]], place = _read_value(text, name.end())
        place = _skip_blanks(text, place)
        if text[place : place + 1] == ")":
            return event, place + 1
        if text[place : place + 1] != ",":
            message = f"expected `,` or `)` after an attribute: {_shown(text, place)}"
            raise ValueError(message)
        place += 1


def _read_value(text: str, place: int) -> tuple[Value, int]:
    """Parse the value that starts at a position, and return the position after it."""
    quoted = _TEXT.match(text, place)
    if quoted is not None:
        return quoted[0][1:-1].replace("''", "'"), quoted.end()
    word = _WORD.match(text, place)
    if word is not None and word[0].lower() in _WORDS:
        return _WORDS[word[0].lower()], word.end()
    for number in (int, float):
        try:
            return number(word[0] if word else ""), word.end() if word else place
        except ValueError:
            continue
    message = f"expected a number, 'text', true, false, null or NaN: {_shown(text, place)}"
    raise ValueError(message)


def _microseconds(seconds: str) -> int:
    exact = Decimal(seconds) * SECOND_US
    if exact != exact.to_integral_value():
        message = f"a time has at most six decimal places: {seconds}"
        raise ValueError(message)
    return int(exact)


def _skip_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _shown(text: str, place: int) -> str:
    rest = text[place : place + 20]
    return repr(rest) if rest else "the text ends"
