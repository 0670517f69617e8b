"""Sequences of ClickHouse, contiguous patterns of Esper and patterns of OpenCEP, as queries.

Each function takes the query of a case and returns the text of a query, or raises
``InexpressibleError``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.flink_patterns import InexpressibleError, condition_text
from tests.conformance.test_window_funnel import condition_of

# ---------------------------------------------------------------------------------------
# ClickHouse: sequenceMatch and sequenceCount


def sequence_text(query: dict[str, Any]) -> str:
    """Write a chain of conditions; counts are those of matches that do not overlap.

    ``(?1)(?2)`` are neighbours among the rows that meet a condition, ``.`` is any such row; ``.*``
    and a time between two rows, ``(?t<=10)``, let others lie between.
    """
    names: list[str] = []
    where: list[str] = []
    rules: list[str] = []
    elapsed, apart = "", False
    for step in query["pattern"]["steps"]:
        if "elapsed" in step:
            elapsed, apart = f"{step['elapsed']} {step['seconds']}", True
        elif step.get("any_events") == "0+":
            apart = True
        else:
            name = f"s{len(names) + 1}"
            if names and apart:
                rules.append(f"{names[-1]} TO {name} any")
            if names and elapsed:
                where.append(f"{name}.{query['ts']} - {names[-1]}.{query['ts']} {elapsed}")
            if "event" in step:
                text = query["conditions"][step["event"] - 1]
                where.append(f"({condition_of(text, name)})")
            names.append(name)
            elapsed, apart = "", False
    pattern = ", ".join(f"row {name}" for name in names)
    text = f"RETURN COUNT(*) PATTERN SEQ({pattern}) SEMANTICS {', '.join(['contiguous', *rules])}"
    text += f" WHERE {' AND '.join(where)}" if where else ""
    return f"{text} TIES arrival AFTER MATCH SKIP PAST LAST"


# ---------------------------------------------------------------------------------------
# Esper: every contiguous match

_PREVIOUS = re.compile(r"PREV\((\w+)\.(\w+)\)")


def contiguous_text(query: dict[str, Any]) -> str:
    """Write a pattern of labels, of which every contiguous match is asked for."""
    tree = query["pattern"]["ast"]
    where = []
    for label, condition in query["defines"].items():
        found = _PREVIOUS.search(condition)
        if found is None:
            where.append(f"({condition})")
            continue
        # The row before is the event before, whatever its label.
        for before in sorted({u for u, v in _neighbours(tree) if v == label}):
            earlier = f"PREV({before}).{found.group(2)}"
            where.append(f"({_PREVIOUS.sub(earlier, condition)})")
        if label in _firsts(tree):
            message = "a condition on the row before the match"
            raise InexpressibleError(message)
    text = f"RETURN MATCHES PATTERN {_pattern(tree)} SEMANTICS contiguous"
    return f"{text} WHERE {' AND '.join(where)} TIES arrival"


def _pattern(tree: dict[str, Any]) -> str:
    match tree:
        case {"var": name}:
            return f"row {name}"
        case {"seq": parts}:
            return f"SEQ({', '.join(map(_pattern, parts))})"
        case {"alt": parts}:
            return "(" + " OR ".join(map(_pattern, parts)) + ")"
        case {"repeat": inner, "min": least, "max": most}:
            marks = {(0, 1): "?", (0, None): "*", (1, None): "+"}
            upto = "" if most is None else most
            return f"({_pattern(inner)}){marks.get((least, most), f'{{{least},{upto}}}')}"
    message = f"the pattern {tree}"
    raise InexpressibleError(message)


def _words(tree: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield words of a pattern that show all its neighbours: loops have up to two rounds."""
    match tree:
        case {"var": name}:
            yield (name,)
        case {"seq": parts}:
            for choice in itertools.product(*(list(_words(part)) for part in parts)):
                yield tuple(itertools.chain(*choice))
        case {"alt": parts}:
            for part in parts:
                yield from _words(part)
        case {"repeat": inner, "min": least, "max": most}:
            for count in range(least, min(most or 2, max(least, 2)) + 1):
                for choice in itertools.product(list(_words(inner)), repeat=count):
                    yield tuple(itertools.chain(*choice))


def _neighbours(tree: dict[str, Any]) -> set[tuple[str, str]]:
    return {pair for word in _words(tree) for pair in itertools.pairwise(word)}


def _firsts(tree: dict[str, Any]) -> set[str]:
    return {word[0] for word in _words(tree) if word}


# ---------------------------------------------------------------------------------------
# OpenCEP

_EVERY = re.compile(r"every \w+: (.*)")
_ADJACENT = re.compile(r"for adjacent (\w+)\[i\], \1\[i\+1\] of the match: (.*)")
_NAMES = re.compile(r"\b([a-z])\.")


def opencep_text(query: dict[str, Any]) -> str:
    """Write a pattern of OpenCEP; times are whole minutes, so `<=` is `<` of a minute more."""
    if "sequence" in query:
        parts, where = _negations(query), list(query["where_all"])
        semantics = "any"
    else:
        parts, where = [], []
        for stage in query["stages"]:
            times = stage.get("times", {"min": 1, "max": 1})
            loop = "+" if (times["min"], times["max"]) == (1, None) else ""
            parts.append(f"row {stage['name']}{loop}")
            where.append(condition_text(stage["where"], stage["name"]))
        where += [_extra(text) for text in query["extra_conditions"]]
        strict = all(stage["link"] in ("begin", "strict") for stage in query["stages"])
        semantics = "contiguous" if strict and len(parts) > 1 else "any"
    names = [part.split()[-1].rstrip("+") for part in parts if not part.startswith("NOT")]
    where = [_of_whole_match(text, names) for text in where]
    pattern = f"SEQ({', '.join(parts)})" if len(parts) > 1 else parts[0]
    text = f"RETURN MATCHES PATTERN {pattern} SEMANTICS {semantics} WHERE {' AND '.join(where)}"
    return f"{text} WITHIN {query['within']['minutes'] + 1} minutes TIES arrival"


def _negations(query: dict[str, Any]) -> list[str]:
    negated = {part["name"] for part in query["sequence"] if part["negated"]}
    if any(set(_NAMES.findall(text)) & negated for text in query["where_all"]):
        message = "a condition between a negated event and one of the match"
        raise InexpressibleError(message)
    if query["sequence"][-1]["negated"]:
        message = "a negation at the end of a window that begins with the match"
        raise InexpressibleError(message)
    return [
        f"{'NOT ' if part['negated'] else ''}{part['type']} {part['name']}"
        for part in query["sequence"]
    ]


def _extra(text: str) -> str:
    every, adjacent = _EVERY.fullmatch(text), _ADJACENT.fullmatch(text)
    if every is not None:
        return every.group(1)
    if adjacent is not None:
        name, condition = adjacent.groups()
        return condition.replace(f"{name}[i+1]", f"NEXT({name})").replace(f"{name}[i]", name)
    if re.fullmatch(r"[\w.]+ [<>=]+ [\w.]+", text):
        return text
    message = "a condition on an event of a loop by its number"
    raise InexpressibleError(message)


def _of_whole_match(text: str, names: list[str]) -> str:
    """Write a condition on two events that are no neighbours as one on the whole match."""
    used = list(dict.fromkeys(_NAMES.findall(text)))
    places = [names.index(name) for name in used if name in names]
    if len(places) != 2 or abs(places[0] - places[1]) == 1:
        return text
    return text.replace(f"{used[0]}.", f"FIRST({used[0]}).", 1)
