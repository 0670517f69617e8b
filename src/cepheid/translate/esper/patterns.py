"""Patterns of EPL in, PATTERN and its clauses out.

``every a=A -> b=B`` begins a match with each A and takes the first B that fits: ``SEMANTICS next``.
``every`` before each part takes all of them: ``SEMANTICS any``. ``every (a=A -> b=B)`` begins again
when it is complete: ``AFTER MATCH SKIP PAST LAST``. Events come one after the other, also at the
same time: ``TIES arrival``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cepheid.expressions.format import format_name, format_path
from cepheid.translate.translated import CannotTranslateError, Settings
from cepheid.translate.words.conditions import condition, conjuncts, duration
from cepheid.translate.words.tokens import Token, Tokens, inside, split, written

_GUARD = ["WHERE", "TIMER", ":", "WITHIN"]
_INTERVAL = ["TIMER", ":", "INTERVAL"]


class Atom(NamedTuple):
    """An event of a pattern: its variable, type and conditions.

    ``absent`` events must not come before it, or, with ``deadline``, for a length of time after it.
    """

    tag: str
    type: str
    tests: tuple[list[Token], ...]
    every: bool = False
    absent: tuple[Atom, ...] = ()
    deadline: str = ""


def write_pattern(
    tokens: Tokens, settings: Settings, notes: dict[str, None]
) -> tuple[str, set[str]]:
    """Write the clauses of a pattern; return them, and the variables of its events.

    Raises
    ------
    CannotTranslateError
        If a part of it has no counterpart.
    """
    again = len(tokens) > 1 and tokens[0].word == "EVERY" and tokens[1].text == "("
    whole, end = inside(tokens, 1) if again else (list(tokens), len(tokens))
    if again and end != len(tokens):
        message = "what follows `every ( … )` has no counterpart"
        raise CannotTranslateError(message)
    return _Pattern(whole, settings, notes, again=again).written()


class _Pattern:
    def __init__(
        self, tokens: Tokens, settings: Settings, notes: dict[str, None], *, again: bool
    ) -> None:
        self._settings, self._notes, self._again = settings, notes, again
        self._span = ""
        self._gaps: list[tuple[str, str, str]] = []
        self._atoms = self._read(tokens)
        self._absent = 0

    # Reading -----------------------------------------------------------------------------

    def _read(self, tokens: Tokens) -> list[Atom]:
        parts = split(tokens, "->")
        atoms: list[Atom] = []
        for place, part in enumerate(parts):
            body, guard = _guarded(part)
            inner = _unwrapped(body)
            if len(split(inner, "->")) > 1:
                if place != len(parts) - 1 or place == 0:
                    message = "brackets inside a pattern, but at its end, have no counterpart"
                    raise CannotTranslateError(message)
                rest = [self._atom(one) for one in split(inner, "->")]
            else:
                rest = [self._atom(body)]
            if guard:
                self._limit(atoms, rest, guard)
            atoms += rest
        return atoms

    def _limit(self, atoms: list[Atom], rest: list[Atom], span: str) -> None:
        """Limit the time from the event before to the last of the rest."""
        if not atoms:
            message = "`timer:within` of the first event counts from the start of the statement"
            raise CannotTranslateError(message)
        if len(atoms) == 1:
            self._span = span
        elif len(rest) == 1:
            self._gaps.append((atoms[-1].tag, rest[0].tag, span))
        else:
            message = "`timer:within` of a part that begins in the middle has no counterpart"
            raise CannotTranslateError(message)

    def _atom(self, tokens: Tokens) -> Atom:
        every = tokens[0].word == "EVERY"
        body = _unwrapped(tokens[1:] if every else tokens)
        parts = split(body, "AND")
        present = [part for part in parts if part[0].word != "NOT"]
        absent = [_event(part[1:]) for part in parts if part[0].word == "NOT"]
        if len(present) != 1 or any(token.word == "OR" for token in body):
            message = "`and` of several events, and `or`, have no counterpart"
            raise CannotTranslateError(message)
        words = [token.word for token in present[0][:3]]
        if words == _INTERVAL:
            if not absent:
                message = "`timer:interval` alone has no counterpart"
                raise CannotTranslateError(message)
            return Atom("", "", (), every, tuple(absent), duration(inside(present[0], 3)[0]))
        return _event(present[0])._replace(every=every, absent=tuple(absent))

    # Writing -----------------------------------------------------------------------------

    def written(self) -> tuple[str, set[str]]:
        """Write the clauses."""
        atoms = self._atoms
        semantics = self._semantics()
        keys = self._keys()
        tests = [f"[{', '.join(map(format_name, keys))}]"] if keys else []
        parts: list[str] = []
        for place, atom in enumerate(atoms):
            parts += [
                self._not(one, atom.deadline, atoms[0].tag, keys, tests) for one in atom.absent
            ]
            if atom.deadline:
                if place != len(atoms) - 1 or len(atoms) != 2:
                    message = "`timer:interval` but after the only event has no counterpart"
                    raise CannotTranslateError(message)
                continue
            parts.append(f"{format_name(atom.type)} {format_name(atom.tag)}")
            before = atoms[place - 1].tag if place else ""
            tests += self._own(atom, before, atoms[0].tag, keys)
        tests += [
            f"({format_name(two)}.{self._time} - {format_name(one)}.{self._time} < {span})"
            for one, two, span in self._gaps
        ]
        sequence = parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"
        lines = [f"PATTERN {sequence}"]
        lines += [f"WHERE {' AND '.join(tests)}"] if tests else []
        lines += [f"SEMANTICS {semantics}"]
        lines += [f"WITHIN {self._span}"] if self._span else []
        lines += ["TIES arrival"]
        lines += ["AFTER MATCH SKIP PAST LAST"] if self._again else []
        return " ".join(lines), {atom.tag for atom in atoms if atom.tag}

    @property
    def _time(self) -> str:
        return format_path(self._settings.time)

    def _semantics(self) -> str:
        every = [atom.every for atom in self._atoms if not atom.deadline]
        if self._again:
            crossed = any(self._refers(atom) for atom in self._atoms)
            if any(every) or crossed or self._span or self._gaps:
                message = "`every ( … )` with conditions between events has no counterpart"
                raise CannotTranslateError(message)
            return "next"
        if not every[0]:
            message = "a pattern without `every` has one match at most, which has no counterpart"
            raise CannotTranslateError(message)
        if any(every[1:]) and not all(every[1:]):
            message = "`every` before some of the later events has no counterpart"
            raise CannotTranslateError(message)
        return "any" if any(every[1:]) else "next"

    def _refers(self, atom: Atom) -> bool:
        tags = {one.tag for one in self._atoms} - {""}
        events = [atom, *atom.absent]
        return any(_owners(test) & tags for one in events for test in one.tests)

    def _keys(self) -> list[str]:
        """Find the attributes by which all events are equal to the first."""
        first, *others = self._atoms
        events = [one for atom in others for one in ((atom,) if atom.tag else ()) + atom.absent]
        if not events:
            return []
        shared = [{_equality(test, first.tag) for test in one.tests} - {""} for one in events]
        return sorted(set.intersection(*shared))

    def _own(self, atom: Atom, before: str, first: str, keys: Sequence[str]) -> list[str]:
        """Write the conditions of an event: on itself, and between it and the one before."""
        found = []
        for test in atom.tests:
            if _equality(test, first) in keys:
                continue
            others = _owners(test) & {one.tag for one in self._atoms} - {atom.tag, ""}
            if others - {before}:
                message = f"`{written(test)}` compares events that are no neighbours"
                raise CannotTranslateError(message)
            found.append(f"({self._text(test, atom.tag, others)})")
        return found

    def _not(
        self, one: Atom, deadline: str, first: str, keys: Sequence[str], tests: list[str]
    ) -> str:
        self._absent += 1
        tag = one.tag or f"n{self._absent}"
        for test in one.tests:
            if _equality(test, first) in keys:
                continue
            if _owners(test) & {atom.tag for atom in self._atoms}:
                message = f"`{written(test)}` compares an event that must not come with another"
                raise CannotTranslateError(message)
            tests.append(f"({self._text(test, tag, set())})")
        within = f" WITHIN {deadline}" if deadline else ""
        return f"NOT {format_name(one.type)} {format_name(tag)}{within}"

    def _text(self, test: Tokens, tag: str, others: set[str]) -> str:
        def name(path: str) -> str:
            owner = path.partition(".")[0]
            known = "." in path and owner in {tag, *others}
            return format_path(path) if known else f"{format_name(tag)}.{format_path(path)}"

        return condition(test, name, self._notes, "")


def _guarded(tokens: Tokens) -> tuple[list[Token], str]:
    """Cut off ``where timer:within(…)``; return the rest, and the length of time."""
    for place in range(len(tokens)):
        if [token.word for token in tokens[place : place + 4]] == _GUARD:
            given, end = inside(tokens, place + 4)
            if end == len(tokens):
                return list(tokens[:place]), duration(given)
    if any(token.word == "WHERE" for token in tokens):
        message = "`where` in a pattern, but for `timer:within`, has no counterpart"
        raise CannotTranslateError(message)
    return list(tokens), ""


def _unwrapped(tokens: Tokens) -> list[Token]:
    """Take off brackets around all of a text."""
    if tokens[0].text == "(":
        body, end = inside(tokens, 0)
        if end == len(tokens):
            return _unwrapped(body)
    return list(tokens)


def _event(tokens: Tokens) -> Atom:
    """Read ``a=A(x > 1, y = b.y)``."""
    body = _unwrapped(tokens)
    tag, place = "", 0
    if len(body) > 1 and body[1].text == "=":
        tag, place = body[0].text, 2
    type_ = body[place]
    tests: list[list[Token]] = []
    rest = place + 1
    if rest < len(body):
        given, rest = inside(body, rest)
        tests = [test for part in split(given, ",") for test in conjuncts(part)]
    if type_.kind not in ("NAME", "QUOTED") or rest != len(body) or type_.word == "EVERY":
        message = f"`{written(body)}` is no event that is carried over"
        raise CannotTranslateError(message)
    return Atom(tag or type_.text, type_.text, tuple(tests))


def _owners(test: Tokens) -> set[str]:
    """Find the names that stand before a dot."""
    return {one.text for one, two in pairwise(test) if two.text == "." and one.kind == "NAME"}


def _equality(test: Tokens, first: str) -> str:
    """Return the attribute of ``x = a.x``, either way round, with the first event; else empty."""
    texts = [token.text for token in test]
    if texts[1:2] == ["="] and texts[2:] == [first, ".", texts[0]]:
        return texts[0]
    if texts[:2] == [first, "."] and texts[3:4] == ["="] and texts[4:] == [texts[2]]:
        return texts[2]
    return ""
