"""Sigma by its specification: a rule as plain values and an event in, whether it is found out.

It shares no code with the translation, and none with pySigma. Events are dicts; a field that is
missing and one that is None are the same.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from cepheid.testing.oracle_expressions import in_network

Event = dict[str, Any]
Test = Callable[[str], bool]


def finds(detection: dict[str, Any], event: Event) -> bool:
    """Tell whether the detection of a rule finds an event."""
    conditions = detection["condition"]
    selections = {name: one for name, one in detection.items() if name != "condition"}
    every = conditions if isinstance(conditions, list) else [conditions]
    return any(_Condition(text, selections, event).holds() for text in every)


class _Condition:
    """Reads a condition from left to right: `or` of `and` of `not`."""

    def __init__(self, text: str, selections: dict[str, Any], event: Event) -> None:
        self._words = re.findall(r"[()]|[^\s()]+", text)
        self._selections, self._event = selections, event

    def holds(self) -> bool:
        found = self._either()
        assert not self._words, self._words
        return found

    def _either(self) -> bool:
        found = self._both()
        while self._took("or"):
            found = self._both() or found
        return found

    def _both(self) -> bool:
        found = self._one()
        while self._took("and"):
            found = self._one() and found
        return found

    def _one(self) -> bool:
        if self._took("not"):
            return not self._one()
        if self._took("("):
            found = self._either()
            assert self._took(")")
            return found
        word = self._words.pop(0)
        if word in ("1", "all") and self._took("of"):
            pattern = self._words.pop(0)
            wild = "*" if pattern == "them" else pattern
            names = [name for name in self._selections if _fits(name, wild)]
            results = [selected(self._selections[name], self._event) for name in names]
            return all(results) if word == "all" else any(results)
        return selected(self._selections[word], self._event)

    def _took(self, word: str) -> bool:
        if self._words[:1] == [word]:
            self._words.pop(0)
            return True
        return False


def _fits(name: str, wild: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wild.split("*"))), name) is not None


def selected(selection: Any, event: Event) -> bool:
    """Tell whether a selection finds an event: a map, a list of maps, or words."""
    if isinstance(selection, dict):
        return all(_field(key, value, event) for key, value in selection.items())
    if isinstance(selection, list):
        return any(selected(one, event) for one in selection)
    return _anywhere(selection, event)


def _anywhere(word: Any, event: Event) -> bool:
    texts = [value for value in event.values() if isinstance(value, str)]
    return any(_like(f"*{word}*", text, cased=False) for text in texts)


def _field(key: str, given: Any, event: Event) -> bool:
    name, *modifiers = key.split("|")
    values = given if isinstance(given, list) else [given]
    if "neq" in modifiers:
        rest = "|".join([name, *(m for m in modifiers if m != "neq")])
        return not _field(rest, given, event)
    if not name:
        results = [_anywhere(value, event) for value in values]
    else:
        results = [_value(event.get(name), value, modifiers, event) for value in values]
    return all(results) if "all" in modifiers else any(results)


def _value(found: Any, value: Any, modifiers: list[str], event: Event) -> bool:
    if "exists" in modifiers:
        return (found is not None) == bool(value)
    if value is None:
        return found is None
    if found is None:
        return False
    for modifier, test in _ORDER.items():
        if modifier in modifiers:
            return test(float(found), float(value))
    if "cidr" in modifiers:
        return in_network(str(found), str(value))
    if "re" in modifiers:
        flags = sum(getattr(re, flag.upper()) for flag in "ims" if flag in modifiers)
        return re.search(str(value), str(found), flags) is not None
    if "fieldref" in modifiers:
        other = event.get(str(value))
        return other is not None and _around(_plain(str(other)), modifiers, str(found))
    if isinstance(value, bool | int | float):
        return type(value) is type(found) and value == found
    return any(_around(one, modifiers, str(found)) for one in _encoded(value, modifiers))


_ORDER: dict[str, Callable[[float, float], bool]] = {
    "lte": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
    "gte": lambda a, b: a >= b,
    "gt": lambda a, b: a > b,
}


def _plain(text: str) -> str:
    """Write a text so that it has no wildcards."""
    return re.sub(r"([\\*?])", r"\\\1", text)


def _around(value: str, modifiers: list[str], text: str) -> bool:
    before = "*" if {"contains", "endswith"} & {*modifiers} else ""
    after = "*" if {"contains", "startswith"} & {*modifiers} else ""
    # A backslash at the end of a value stands for itself, also before what is added behind it.
    single = re.search(r"(?<!\\)(?:\\\\)*\\$", value) is not None
    ended = value + "\\" if single and after else value
    return _like(before + ended + after, text, cased="cased" in modifiers)


def _encoded(value: str, modifiers: list[str]) -> Iterator[str]:
    """Yield what a value stands for after dashes, UTF-16 and Base64."""
    values = [value]
    if "windash" in modifiers:
        parts = re.split(r"((?<!\w)[-/](?=\w))", value)
        dashes = [
            ["-", "/", "\u2013", "\u2014", "\u2015"] if n % 2 else [part]
            for n, part in enumerate(parts)
        ]
        values = ["".join(one) for one in itertools.product(*dashes)]
    coding = "utf-16-le" if {"wide", "utf16le"} & {*modifiers} else "utf-8"
    for one in values:
        data = "".join(part for part in _letters(one)).encode(coding) if _coded(modifiers) else b""
        if "base64" in modifiers:
            yield _plain(base64.b64encode(data).decode())
        elif "base64offset" in modifiers:
            for offset in range(3):
                yield _plain(_certain(data, offset))
        else:
            yield one


def _coded(modifiers: list[str]) -> bool:
    return "base64" in modifiers or "base64offset" in modifiers


def _certain(data: bytes, offset: int) -> str:
    """Return the letters of Base64 that depend on the data alone, after some other bytes."""
    first = -(-offset * 8 // 6)
    last = (offset + len(data)) * 8 // 6
    return base64.b64encode(b"\0" * offset + data).decode()[first:last]


def _letters(value: str) -> Iterator[str]:
    """Split a value: a wildcard alone, or what an escape or a letter stands for."""
    for part in re.findall(r"\\[\\*?]|.", value, flags=re.DOTALL):
        yield part[-1] if len(part) > 1 else part


def _like(value: str, text: str, *, cased: bool) -> bool:
    regex = ""
    for part in re.findall(r"\\[\\*?]|.", value, flags=re.DOTALL):
        wild = {"*": ".*", "?": "."}.get(part)
        regex += wild or re.escape(part[-1] if cased else part[-1].lower())
    return re.fullmatch(regex, text if cased else text.lower(), re.DOTALL) is not None
