"""The reference implementation of surveys: all matches of a cell in, its rows out (§17).

Draws are random, so of SAMPLE only a cell with one match has known rows; tests of chance take the
matches of the cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from cepheid.language import tree
from cepheid.testing.oracle_matches import Event, Match

SURVEYS = ("SAMPLE", "TOP", "LONGEST", "BLAME", "HISTOGRAM", "PERCENTILE", "MEDIAN")


class ChanceError(Exception):
    """The rows of a sample of several matches are a matter of chance (§17.2)."""


def survey_of(query: tree.Query) -> tree.Call | None:
    """Find the survey that a query returns."""
    items = query.returns.items if query.returns else ()
    calls = [item.expression for item in items if isinstance(item.expression, tree.Call)]
    return next((call for call in calls if call.function in SURVEYS), None)


def columns_of_survey(call: tree.Call) -> list[str]:
    """Name the columns of a survey (§17.2 to §17.5)."""
    if call.function == "SAMPLE":
        return ["draw", "events"]
    if call.function == "BLAME":
        return ["event", "matches", "share", "log2_matches"]
    name = name_of_value(value_of(call))
    if call.function == "HISTOGRAM":
        return [name, "error", "matches", "share", "log2_matches"]
    if call.function in ("PERCENTILE", "MEDIAN"):
        return ["fraction", name, "error"]
    return ["rank", name, "events"]


def value_of(call: tree.Call) -> tree.Expression:
    """Find the value by which matches are ranked."""
    if call.function == "LONGEST":
        return tree.Word(span=call.span, text="LENGTH")
    return call.arguments[1 if call.function == "TOP" else 0]


def name_of_value(value: tree.Expression) -> str:
    """Name the column of a value."""
    if isinstance(value, tree.Word):
        return value.text.lower()
    assert isinstance(value, tree.Aggregate), "a value is a word or an aggregate"
    names = [name.text for name in (value.variable, value.attribute) if name]
    return "_".join([value.function.lower(), *names])


def survey_rows(
    call: tree.Call,
    pattern: tree.Pattern,
    found: Sequence[Match],
    events: Sequence[Event],
    times: Sequence[int],
) -> list[dict[str, object]]:
    """Build the rows of one group and window.

    Raises
    ------
    ChanceError
        If a sample could have other rows.
    """
    if call.function == "BLAME":
        through = Counter(i for m in found for _, i in m)
        return [
            {
                "event": i,
                "matches": float(count),
                "share": count / len(found),
                "log2_matches": math.log2(count),
            }
            for i, count in sorted(through.items())
        ]
    if call.function in ("HISTOGRAM", "PERCENTILE", "MEDIAN"):
        return _distribution_rows(
            call, Counter(map(worth_of(value_of(call), events, times), found))
        )
    first = call.arguments[0]
    assert isinstance(first, tree.Literal), "the number of matches"
    assert isinstance(first.value, int), "the number of matches"
    if call.function == "SAMPLE":
        if len(found) > 1:
            raise ChanceError
        return [{"draw": n + 1, "events": found[0]} for n in range(first.value)]
    value = value_of(call)
    worth = worth_of(value, events, times)
    written = _written(pattern)

    def place(m: Match) -> tuple[bool, float, list[tuple[int, int]]]:
        backwards = [(i, written.index(name)) for name, i in reversed(m)]
        largest = math.isnan(worth(m))
        return not largest, 0.0 if largest else -worth(m), backwards

    best = sorted(found, key=place)[: first.value]
    name = name_of_value(value)
    return [{"rank": n + 1, name: worth(m), "events": m} for n, m in enumerate(best)]


def _distribution_rows(call: tree.Call, values: Counter[float]) -> list[dict[str, object]]:
    """Build the rows of exact values (§17.7, §17.8)."""
    name, total = name_of_value(value_of(call)), values.total()
    if call.function == "HISTOGRAM":
        return [
            {
                name: value,
                "error": type(value)(0),
                "matches": float(count),
                "share": count / total,
                "log2_matches": math.log2(count),
            }
            for value, count in sorted(values.items())
        ]
    fractions = [a.value for a in call.arguments[1:] if isinstance(a, tree.Literal)] or [0.5]
    rows: list[dict[str, object]] = []
    for fraction in fractions:
        assert isinstance(fraction, int | float), "a number from 0 to 1"
        reached = [
            v
            for v in values
            if sum(n for w, n in values.items() if w <= v) >= fraction * total - 1e-9
        ]
        value = min(reached)
        rows.append({"fraction": float(fraction), name: value, "error": type(value)(0)})
    return rows


def _written(pattern: tree.Pattern) -> list[str]:
    """List the variables in the order in which they are written."""
    nodes = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    ordered = sorted(nodes, key=lambda n: n.span.start)
    return list(dict.fromkeys(n.variable.text for n in ordered))


def worth_of(
    value: tree.Expression, events: Sequence[Event], times: Sequence[int]
) -> Callable[[Match], float]:
    """Find the function that computes the value of a match (§17.3)."""
    if isinstance(value, tree.Word):
        if value.text.upper() == "LENGTH":
            return len
        return lambda m: times[m[-1][1]] - times[m[0][1]]
    assert isinstance(value, tree.Aggregate), "a value is a word or an aggregate"
    assert value.variable is not None, "COUNT(*) is no value of a match"
    variable, attribute = value.variable.text, value.attribute
    if attribute is None:
        return lambda m: sum(name == variable for name, _ in m)

    def added(m: Match) -> float:
        total = 0.0
        for name, i in m:
            x = events[i].get(attribute.text)
            if name == variable and x is not None:
                assert isinstance(x, int | float), "only numbers are added up"
                total += x
        return total

    return added
