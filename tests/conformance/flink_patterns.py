"""Flink-CEP patterns, as data, to queries of Cepheid: links between stages become NOT or SEMANTICS.

A link says which events may lie between two events of a match: none (strict), none that the later
stage would take (skip till next), any (skip till any). Three ways to say so, tried in this order:

- all links are strict: ``SEMANTICS contiguous``;
- all links are till next, and no stage can be followed by two different ones: ``SEMANTICS next``;
- else skip-till-any-match with a NOT in the gap: ``SEQ(A a, NOT E x, B b)``, where x is any event,
  or one that b would take. Between the rounds of a loop, a rule of the link says the same:
  ``SEMANTICS any, b TO b next``; what must not lie there ends the loop: ``E b+ UNTIL (b.x = 1)``.

``notNext`` is ``NOT NEXT E x``, and a greedy loop ``E b+ GREEDY``.

Optional stages and counted ones are written out as alternatives.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

STRICT, NEXT, ANY = "strict", "skip_till_next", "skip_till_any"
INNER = {"strict": STRICT, "relaxed": NEXT, "any": ANY}
SKIPS = {
    "skip_to_next": "TO NEXT",
    "skip_past_last": "PAST LAST",
    "skip_to_first": "TO FIRST",
    "skip_to_last": "TO LAST",
}
RULES = {STRICT: "contiguous", NEXT: "next"}
ALTERNATIVES_MAX = 64


class InexpressibleError(Exception):
    """The language of Cepheid has no query for a pattern; the text says why."""


class Item(NamedTuple):
    """One event of a match, or a loop over the alternatives in ``inside``.

    ``forbidden`` are conditions of events that must not lie between this one and the one before;
    ``gap`` limits the milliseconds to an event of the same stage. A loop has at least ``least``
    rounds, and ends before the first event that meets one of the conditions in ``until``; its
    first event may meet those from number ``own`` on. A ``greedy`` one leaves nothing that it could
    take to what follows.
    """

    stage: str
    link: str
    where: Any = None
    forbidden: tuple[Any, ...] = ()
    gap: int | None = None
    loop: str | None = None
    inside: tuple[tuple[Item, ...], ...] = ()
    least: int = 1
    until: tuple[Any, ...] = ()
    own: int = 0
    greedy: bool = False


Alternative = tuple[Item, ...]


class Beside(NamedTuple):
    """A condition that is forbidden for the one event after a stage: ``notNext``."""

    where: Any


class Translated(NamedTuple):
    """A query, and the stages that its variables stand for."""

    text: str
    stages: dict[str, str]


def translate(query: dict[str, Any]) -> Translated:
    """Return the query of a pattern.

    Raises
    ------
    InexpressibleError
        If there is none.
    """
    stages, within = query["stages"], query["within"] or {}
    ending: tuple[str, Any] | None = None
    if stages[-1]["link"] == "not_follow" and within.get("stage") == stages[-1]["name"]:
        # The time is counted from the stage before, as that of a NOT with its own WITHIN.
        ending = f"NOT E {{}} WITHIN {within['ms']} ms", stages[-1].get("where")
    elif stages[-1]["link"] == "not_next":
        ending = "NOT NEXT E {}", stages[-1].get("where")
    alternatives = [a for a in _expand(stages if ending is None else stages[:-1]) if a]
    return _Writer(query, alternatives, ending).write()


# ---------------------------------------------------------------------------------------
# Stages to alternatives


def _expand(stages: Sequence[dict[str, Any]], *, nested: bool = False) -> list[Alternative]:
    """Return all sequences of items that stages allow."""
    if stages[-1].get("greedy") and nested:
        message = "greedy at the end of a group"
        raise InexpressibleError(message)
    # At the end of a pattern, Flink's greedy loops have every length.
    stages = [*stages[:-1], {**stages[-1], "greedy": False}]
    # What must not come before the next event, beside the events so far.
    found: list[tuple[Alternative, tuple[Any, ...]]] = [((), ())]
    for place, stage in enumerate(stages):
        if stage["link"] == "not_next":
            found = [(a, (*forbidden, Beside(stage.get("where")))) for a, forbidden in found]
            continue
        if stage["link"] == "not_follow":
            found = [(a, (*forbidden, stage.get("where"))) for a, forbidden in found]
            if place == len(stages) - 1:
                message = "notFollowedBy at the end waits for a window that begins with the match; "
                message += "windows of Cepheid begin at fixed times, or end with the match"
                raise InexpressibleError(message)
            continue
        following = stages[place + 1] if place + 1 < len(stages) else stage
        after = (following.get("where"),) if following["link"] == "not_follow" else ()
        # A greedy loop without an event is a loop of no rounds, so that it still leaves nothing.
        absent = found if stage.get("optional") and not stage.get("greedy") else []
        present = [
            ((*a, *part), ()) for a, forbidden in found for part in _repeat(stage, forbidden, after)
        ]
        found = [*present, *absent]
        if len(found) > ALTERNATIVES_MAX:
            message = "too many alternatives"
            raise InexpressibleError(message)
    # A negation before stages that are all absent says nothing.
    return [a for a, _ in found]


def _repeat(
    stage: dict[str, Any], forbidden: tuple[Any, ...], after: tuple[Any, ...]
) -> list[Alternative]:
    """Return what a stage can be, with all its repetitions.

    What is forbidden after the stage is so between its repetitions too, since Flink ends a partial
    match at once.
    """
    until = (stage["until"],) if "until" in stage else ()
    stops = (*until, *after)
    once = _once(stage)
    times = stage.get("times") or {"min": 1, "max": 1, "inner": "relaxed"}
    inner = INNER[times["inner"]]
    least, most = times["min"], times["max"]
    if stage.get("greedy"):
        if stops:
            message = "greedy with until: GREEDY asks for events that the loop took no longer"
            raise InexpressibleError(message)
        if most is not None or "group" in stage or (stage.get("optional") and least > 1):
            message = "greedy of a group, or with a largest number of rounds"
            raise InexpressibleError(message)
        least = 0 if stage.get("optional") else least
    if most is not None:
        if until:
            once = [(_without(a[0], until), *a[1:]) for a in once]
        first = [(a[0]._replace(link=stage["link"], forbidden=forbidden), *a[1:]) for a in once]
        again = [(a[0]._replace(link=inner, forbidden=stops), *a[1:]) for a in once]
        return [
            tuple(itertools.chain(*choice))
            for count in range(least, most + 1)
            for choice in itertools.product(first, *[again] * (count - 1))
        ]
    first = [(a[0]._replace(link=stage["link"], forbidden=forbidden), *a[1:]) for a in once]
    loop = _loop(stage.get("name", "group"), first, once, inner)
    greedy = bool(stage.get("greedy"))
    return [(loop._replace(least=least, until=stops, own=len(until), greedy=greedy),)]


def _without(item: Item, until: tuple[Any, ...]) -> Item:
    """Return an event that does not meet the conditions which end its loop."""
    conditions = [*([item.where] if item.where is not None else []), *({"not": c} for c in until)]
    return item._replace(where={"and": conditions})


def _once(stage: dict[str, Any]) -> list[Alternative]:
    if "group" not in stage:
        gap = (stage.get("times") or {}).get("gap_ms")
        return [(Item(stage["name"], NEXT, stage.get("where"), gap=gap),)]
    inside = stage["group"]
    parts = inside if isinstance(inside, list) else inside["stages"]
    found = [a for a in _expand(parts, nested=True) if a]
    if not found:
        message = "a group without events"
        raise InexpressibleError(message)
    return found


def _loop(
    name: str, entries: Sequence[Alternative], once: Sequence[Alternative], inner: str
) -> Item:
    """Return one or more rounds; their first events must be of one kind."""
    heads = {json.dumps([a[0].link, a[0].where, a[0].forbidden]) for a in entries}
    if len(heads) > 1:
        message = "a loop whose rounds begin with different stages"
        raise InexpressibleError(message)
    head = entries[0][0]
    inside = tuple(tuple(a) for a in once)
    return Item(name, head.link, head.where, head.forbidden, None, inner, inside)


# ---------------------------------------------------------------------------------------
# Alternatives to text


class _Writer:
    def __init__(
        self,
        query: dict[str, Any],
        alternatives: list[Alternative],
        ending: tuple[str, Any] | None = None,
    ) -> None:
        self._query, self._alternatives, self._ending = query, alternatives, ending
        self._variables: dict[str, str] = {}
        self._forbidden: dict[str, str] = {}
        self._conditions: list[str] = []
        self._rules: dict[tuple[str, str], str] = {}
        self._repeated: dict[str, str] = {}
        """Variables of later rounds, and those of the first."""

    def write(self) -> Translated:
        """Return the query."""
        items = [item for a in self._alternatives for item in _items(a)]
        links = {item.link for a in self._alternatives for item in a[1:]}
        links |= {item.loop for item in items if item.loop is not None}
        links |= {later.link for item in items for inner in item.inside for later in inner[1:]}
        stopped = any(item.until for item in items)
        if stopped:
            links.add(ANY)
        if links <= {STRICT} and not any(item.forbidden for item in items):
            semantics = "contiguous"
        elif links <= {NEXT} and not any(i.greedy for i in items) and self._has_one_way():
            semantics = "next"
        else:
            semantics = "any"
        pattern = " OR ".join(self._sequence(a, semantics) for a in self._alternatives)
        if self._ending is not None:
            text, condition = self._ending
            pattern = f"SEQ({pattern}, {text.format(self._forbid(condition))})"
        window = self._limit_times()
        where = " AND ".join(dict.fromkeys(self._conditions))
        rules = [f"{u} TO {v} {rule}" for (u, v), rule in self._rules.items()]
        text = f"RETURN MATCHES PATTERN {pattern} SEMANTICS {', '.join([semantics, *rules])}"
        text += f" WHERE {where}" if where else ""
        stages = {name: stage for stage, name in self._variables.items()}
        stages |= {again: stages[name] for again, name in self._repeated.items()}
        return Translated(f"{text}{window} TIES arrival{self._skip()}", stages)

    def _skip(self) -> str:
        skip = self._query["after_match_skip"]
        if skip["mode"] == "no_skip":
            return ""
        firsts = {alternative[0].stage for alternative in self._alternatives}
        if skip.get("stage") in firsts and not skip.get("error_on_miss"):
            message = "a skip that may lead to the first event of its match, where Flink goes on"
            raise InexpressibleError(message)
        target = ""
        if "stage" in skip:
            if skip["stage"] not in self._variables:
                message = "a skip to a stage that no match has"
                raise InexpressibleError(message)
            target = f" {self._variables[skip['stage']]}"
        return f" AFTER MATCH SKIP {SKIPS[skip['mode']]}{target}"

    def _has_one_way(self) -> bool:
        """Return whether all events that may come next fulfil one and the same condition."""
        following: dict[tuple[str, ...], set[str]] = {}
        for word in self._words():
            for length, item in enumerate(word):
                prefix = tuple(before.stage for before in word[:length])
                following.setdefault(prefix, set()).add(json.dumps(item.where))
        # A match may begin anywhere, whatever else begins one.
        return all(len(found) == 1 for prefix, found in following.items() if prefix)

    def _words(self) -> Iterator[Alternative]:
        """Yield the sequences of events that matches can be, loops with one round or two."""
        return (word for a in self._alternatives for word in _unrolled(a))

    def _sequence(self, items: Alternative, semantics: str, *, repeated: bool = False) -> str:
        parts: list[str] = []
        for place, item in enumerate(items):
            if place:
                parts += self._gap(item, semantics)
            elif item.forbidden and not repeated:
                message = "a negation before the first stage"
                raise InexpressibleError(message)
            parts.append(self._element(item, semantics) + " GREEDY" * item.greedy)
        return f"SEQ({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def _gap(self, item: Item, semantics: str) -> list[str]:
        forbidden = list(item.forbidden)
        if semantics == "any" and item.link in (STRICT, NEXT):
            forbidden.append(None if item.link == STRICT else item.where)
        return [
            f"NOT NEXT E {self._forbid(condition.where)}"
            if isinstance(condition, Beside)
            else f"NOT E {self._forbid(condition)}"
            for condition in forbidden
        ]

    def _forbid(self, condition: Any) -> str:
        name = self._forbidden.setdefault(json.dumps(condition), f"x{len(self._forbidden)}")
        if condition is not None:
            self._conditions.append(condition_text(condition, name))
        return name

    def _element(self, item: Item, semantics: str) -> str:
        if item.loop is None:
            return f"E {self._variable(item)}"
        if len(item.inside) == 1 and len(item.inside[0]) == 1 and not item.inside[0][0].loop:
            name = self._variable(item.inside[0][0])
            if item.until:
                return self._ended_loop(item, name, semantics)
            self._link_rounds(item, [name], [name], semantics)
            return f"E {name}{_mark(item.least)}"
        rounds = [(a[0]._replace(link=item.loop, forbidden=()), *a[1:]) for a in item.inside]
        texts = [self._sequence(a, semantics, repeated=True) for a in rounds]
        firsts = [self._variables[a[0].stage] for a in rounds]
        self._link_rounds(item, [n for a in rounds for n in self._lasts(a)], firsts, semantics)
        ends = " OR ".join(f"({condition_text(c, firsts[0])})" for c in item.until)
        until = f" UNTIL ({ends})" if ends else ""
        return f"({' OR '.join(texts)}){_mark(item.least)}{until}"

    def _ended_loop(self, item: Item, name: str, semantics: str) -> str:
        """Write a loop that an event ends; what lies before its first round does not end it.

        UNTIL is counted from the event before a loop, so the first round stands before it.
        """
        again = f"{name}r"
        self._repeated[again] = name
        where = item.inside[0][0].where
        if where is not None:
            self._conditions.append(condition_text(where, again))
        self._conditions += [f"NOT ({condition_text(c, name)})" for c in item.until[: item.own]]
        self._link_rounds(item, [name], [again], semantics)
        self._link_rounds(item, [again], [again], semantics)
        ends = " OR ".join(f"({condition_text(c, again)})" for c in item.until)
        mark = "*" if item.least == 1 else _mark(item.least - 1)
        return f"SEQ(E {name}, E {again}{mark} UNTIL ({ends}))"

    def _lasts(self, alternative: Alternative) -> list[str]:
        """Return the variables that the last event of a round can have."""
        item = alternative[-1]
        if item.loop is None:
            return [self._variables[item.stage]]
        return [name for inner in item.inside for name in self._lasts(inner)]

    def _link_rounds(self, item: Item, lasts: list[str], firsts: list[str], semantics: str) -> None:
        """Give the links between two rounds of a loop their rule."""
        if semantics != "any" or item.loop not in RULES:
            return
        for u, v in itertools.product(lasts, firsts):
            closing = [pair for pair in self._rules if pair[0] == u and pair != (u, v)]
            if (closing and not item.until) or self._rules.get((u, v), RULES[item.loop]) != RULES[
                item.loop
            ]:
                message = "two loops end with one stage, and an event of one would close the other"
                raise InexpressibleError(message)
            self._rules[u, v] = RULES[item.loop]

    def _variable(self, item: Item) -> str:
        name = self._variables.setdefault(item.stage, f"v{len(self._variables)}")
        if item.where is not None:
            self._conditions.append(condition_text(item.where, name))
        return name

    def _limit_times(self) -> str:
        """Add limits on the time between neighbours; return the window."""
        pairs = (pair for word in self._words() for pair in itertools.pairwise(word))
        names = dict.fromkeys((a.stage, b.stage, b.gap) for a, b in pairs)
        within = self._query["within"] or {"type": None}
        for before, after, gap in names:
            first, second = self._variables[before], self._variables[after]
            if gap is not None and before == after:
                self._conditions.append(f"{first}.t + {gap} > NEXT({second}).t")
            if within["type"] == "previous_and_current" and within["stage"] == after:
                self._conditions.append(f"{first}.t + {within['ms']} > NEXT({second}).t")
        if within["type"] != "first_and_last":
            return ""
        return f" WITHIN {within['ms']} ms"


def _mark(least: int) -> str:
    return {0: "*", 1: "+"}.get(least, f"{{{least},}}")


def _items(alternative: Alternative) -> Iterator[Item]:
    for item in alternative:
        yield item
        for inner in item.inside:
            yield from _items(inner)


def _unrolled(alternative: Alternative) -> Iterator[Alternative]:
    choices: list[list[Alternative]] = []
    for item in alternative:
        rounds = [word for inner in item.inside for word in _unrolled(inner)]
        twice = [(*a, *b) for a in rounds for b in rounds]
        choices.append([*rounds, *twice] if item.loop is not None else [(item,)])
    for choice in itertools.product(*choices):
        yield tuple(itertools.chain(*choice))


# ---------------------------------------------------------------------------------------
# Conditions


def condition_text(condition: Any, variable: str) -> str:
    """Return a condition on one event as a local predicate."""
    match condition:
        case {"and": parts}:
            return "(" + " AND ".join(condition_text(part, variable) for part in parts) + ")"
        case {"or": parts}:
            return "(" + " OR ".join(condition_text(part, variable) for part in parts) + ")"
        case {"not": part}:
            return f"NOT ({condition_text(part, variable)})"
        case {"kind": kind}:
            return f"{variable}.kind = {_literal(kind)}"
        case {"agg": _} | {"first_of": _}:
            message = "a condition on the events that a partial match has so far"
            raise InexpressibleError(message)
        case {"cmp": "contains", "attr": name, "value": value}:
            return f"{variable}.{name} LIKE {_literal('%' + value + '%')}"
        case {"cmp": "starts_with", "attr": name, "value": value}:
            return f"{variable}.{name} LIKE {_literal(value + '%')}"
        case {"cmp": operator, "attr": name, "value": value}:
            return f"{variable}.{name} {operator} {_literal(value)}"
    message = f"the condition {condition}"
    raise InexpressibleError(message)


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
