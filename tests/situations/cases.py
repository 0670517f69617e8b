"""Random queries about situations, and streams for them, drawn by Hypothesis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from cepheid.language.tree import Relation
from cepheid.testing.strategies import choice, choices

SECOND_US = 1_000_000
GROUPS = (
    "overlaps;contains;finished by",
    "starts;equals;started by",
    "during;finishes;overlapped by",
    "before;meets",
    "met by;after",
    "intersects",
)
AGGREGATES = (
    *("COUNT({0})", "COUNT({0}.x)", "SUM({0}.x)", "AVG({0}.x)", "MIN({0}.x)", "MAX({0}.x)"),
    *("FIRST({0}.x)", "LAST({0}.x)", "LAST({0}.n)", "MAX({0}.n)", "FIRST({0}.ts)"),
)


RELATIVE = (
    *("n > PREV(n)", "{own} AND n >= PREV(n)", "PREV({own})", "x <> PREV({name}.x)"),
    *("{own} UNTIL NOT {own}", "a UNTIL b", "{own} UNTIL n < PREV(n)", "n > PREV(n) UNTIL d"),
    *("COUNT(*) <= 2", "SUM(n) < 5", "AVG({name}.x) > 0", "{own} AND COUNT({name}) < 3"),
    *("{own} AND MAX(n) - MIN(n) <= 1", "n > 0 UNTIL COUNT(*) > 2", "b UNTIL SUM(x) > 3"),
    *("AVG(n) > PREV(n) UNTIL COUNT(x) = 2", "MIN(x) < 1 OR {own}"),
    *("n - FIRST(n) < 2", "{own} UNTIL n < FIRST({name}.n)", "x >= FIRST(x) AND COUNT(*) < 4"),
)
"""Conditions that look at more than one event (§9.10)."""


class Case(NamedTuple):
    """A query and a stream."""

    query: str
    events: list[dict[str, object]]


@functools.cache
def relations() -> st.SearchStrategy[str]:
    """Return sets of relations, often whole prefix groups."""
    single = st.sampled_from([relation.value for relation in Relation])
    part = st.one_of(single, st.sampled_from(GROUPS))
    return st.lists(part, min_size=1, max_size=5).map(";".join)


@st.composite
def queries(draw: st.DrawFn, *, relative: bool = False) -> str:
    """Return a query over the attributes a, b, c, d (true or not), x, n and the partition k.

    With ``relative``, conditions may look at more than one event.
    """
    count = draw(choice([2, 2, 3, 4]))
    names = ["A", "B", "C", "D"][:count]
    definitions = []
    for name in names:
        bound = draw(choice(["", "", "", " AT LEAST {0} s", " AT MOST {0} s", "both"]))
        low = draw(st.integers(1, 3))
        if bound == "both":
            bound = f" BETWEEN {low} s AND {low + draw(st.integers(0, 2))} s"
        condition = name.lower()
        if relative and draw(choice([False, True, True])):
            condition = draw(choice(RELATIVE)).format(name=name, own=name.lower())
        counted = draw(choice(["", "", "", " AT LEAST {0} EVENTS", " AT MOST {0} EVENTS", "both"]))
        if counted == "both":
            counted = f" BETWEEN {{0}} EVENTS AND {low + draw(st.integers(0, 2))} EVENTS"
        definitions.append(f"{name} AS {condition}{bound.format(low)}{counted.format(low)}")
    pairs = [(a, b) for a in names for b in names if a != b]
    wanted = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=count))
    constraints = [f"{a} {draw(relations())} {b}" for a, b in wanted]
    window = draw(choice(["", "WITHIN {0} s", "DETECTED WITHIN {0} s"]))
    window = window.format(draw(st.integers(1, 9)))
    items: list[str] = []
    for aggregate in draw(choices(AGGREGATES, 0, 3)):
        items.append(f"{aggregate.format(draw(choice(names)))} AS r{len(items)}")
    returns = f"RETURN {', '.join(items)}" if items else ""
    partition = draw(choice(["", "PARTITION BY k"]))
    where = draw(choice(["", "", "WHERE n <> 3"]))
    return (
        f"FROM s {partition} {where} DEFINE {', '.join(definitions)} "
        f"PATTERN {' AND '.join(constraints)} {window} {returns}"
    )


NUMBERS = (None, 1.5, -2.0, 0.0, 7.25)
KEYS = ("p", "p", "q", None)


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    most: int = 8,
    numbers: Sequence[object] = NUMBERS,
    keys: Sequence[object] = KEYS,
) -> list[dict[str, object]]:
    """Return events with ties and gaps; conditions are often true for a while."""
    time = 0
    events: list[dict[str, object]] = []
    flags = dict.fromkeys("abcd", False)
    for number in range(draw(st.integers(0, most))):
        time += draw(choice([0, 1, 1, 1, 2, 3])) * SECOND_US
        for name in draw(choices("abcd", 0, 3)):
            flags[name] = not flags[name]
        event: dict[str, object] = {"ts": time, **flags, "n": number}
        event["x"] = draw(choice(numbers))
        event["k"] = draw(choice(keys))
        if draw(st.integers(0, 5)) == 0:
            event[draw(choice("abcd"))] = None
        events.append(event)
    return events


@st.composite
def cases(draw: st.DrawFn, *, relative: bool = False) -> Case:
    """Return a query and a stream."""
    return Case(draw(queries(relative=relative)), draw(streams()))
