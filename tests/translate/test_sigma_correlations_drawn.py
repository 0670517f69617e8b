"""Correlations of Sigma against their definition: every event looks back over the span."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import cepheid
from cepheid.translate.sigma.rules import translate_rules
from cepheid.translate.translated import Log, Outcome, Settings, SourceFile, Translated

SECOND = 1_000_000
SPAN = 10
RULES = ("a", "b", "c")


class Event(NamedTuple):
    """Rules find the events that they are called after; the others are fields."""

    second: int
    rule: str
    user: str | None
    host: str | None
    n: int


def _one_after_another(steps: list[Event]) -> list[Event]:
    seconds = itertools.accumulate(e.second for e in steps)
    return [e._replace(second=second) for e, second in zip(steps, seconds, strict=True)]


EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 3),
        st.sampled_from([*RULES, "d"]),
        st.sampled_from(["x", "x", "x", "y", None]),
        st.sampled_from(["h", "i", None]),
        st.integers(1, 3),
    ),
    max_size=12,
).map(_one_after_another)


def translated(kind: str, condition: Any, rules: Sequence[str] = RULES, **more: Any) -> Translated:
    """Translate a correlation by user of rules that find the events of their name."""
    documents: list[dict[str, Any]] = [
        {
            "title": name,
            "name": name,
            "logsource": {"category": "login"},
            "detection": {"s": {"rule": name}, "condition": "s"},
        }
        for name in RULES
    ]
    given = {"type": kind, "rules": list(rules), "timespan": f"{SPAN}s", "group-by": ["user"]}
    given |= {"condition": condition, **more}
    documents.append({"title": kind, "level": "high", "correlation": given})
    file = SourceFile("rules.yml", yaml.safe_dump_all(documents))
    (rule,) = (o for o in translate_rules([file], Settings(logs=(Log({}),))) if o.severity)
    return rule


def alerts(rule: Translated, events: Iterable[Event]) -> set[tuple[int, str]]:
    """Return the seconds and users of the rows."""
    assert not rule.reasons, rule.reasons
    fields = {"rule": pa.string(), "user": pa.string(), "host": pa.string(), "n": pa.int64()}
    columns = {
        name: pa.array([getattr(e, name) for e in events], kind) for name, kind in fields.items()
    }
    times = pa.array([e.second * SECOND for e in events], pa.int64())
    table = pa.table({"ts": times, "type": pa.array(["e"] * len(times), pa.string()), **columns})
    rows = cepheid.query(rule.query).run(table).to_pylist()
    return {(row["window_end"] // SECOND, row["user"]) for row in rows}


def by_definition(
    events: Sequence[Event],
    holds: Callable[[Event, list[Event]], bool],
    rules: Sequence[str] = RULES,
) -> set[tuple[int, str]]:
    """Look back from every event that a rule finds, over the span that ends with it."""
    return {
        (e.second, e.user)
        for e in events
        if e.user is not None and e.rule in rules
        if holds(e, [f for f in events if f.user == e.user and -SPAN < f.second - e.second <= 0])
    }


def in_order(wanted: Sequence[str], near: list[Event], last: int) -> bool:
    """Tell whether events of these rules follow one another, the last of them at a time."""
    *before, end = wanted
    return any(e.rule == end and e.second == last for e in near) and (
        not before or any(in_order(before, near, e.second) for e in near if e.second < last)
    )


ORDERS: list[tuple[Any, list[tuple[str, str]]]] = [
    ({"gte": 2}, [("ab", ""), ("ac", ""), ("bc", "")]),
    ({"gt": 0}, [("a", ""), ("b", ""), ("c", "")]),
    ({"eq": 3}, [("abc", "")]),
    ({"gte": 2, "lt": 3}, [("ab", "c"), ("ac", "b"), ("bc", "a")]),
    ({"neq": 2}, [("a", "bc"), ("b", "ac"), ("c", "ab"), ("abc", "")]),
    ("a and b and c", [("abc", "")]),
    ("a AND b AND NOT c", [("ab", "c")]),
    ("not b and c and a", [("ac", "b")]),
    ("(a or b) and c", [("ac", ""), ("bc", "")]),
    ("c and not (a and b)", [("c", "a"), ("c", "b")]),
    ("a and not b or c and not a", [("a", "b"), ("c", "a")]),
]


@pytest.mark.parametrize(("condition", "alternatives"), ORDERS)
@settings(max_examples=max(settings().max_examples // 4, 5))  # of each of the conditions
@given(events=EVENTS)
def test_orders_of_some_rules_without_others(
    condition: Any, alternatives: list[tuple[str, str]], events: list[Event]
) -> None:
    rule = translated("temporal_ordered", condition)

    def holds(event: Event, near: list[Event]) -> bool:
        found = {e.rule for e in near}
        return any(
            event.rule == wanted[-1]
            and in_order(wanted, near, event.second)
            and not found & {*absent}
            for wanted, absent in alternatives
        )

    assert alerts(rule, events) == by_definition(events, holds)


@given(EVENTS, st.sampled_from([{"gte": 2, "lt": 4}, {"gt": 1, "neq": 3}, {"lte": 2, "gte": 2}]))
def test_ranges_of_counts(events: list[Event], condition: dict[str, int]) -> None:
    rule = translated("event_count", condition, "ab")
    numbers = {"gte,lt": (2, 3), "gt,neq": (2, *range(4, 13)), "gte,lte": (2,)}
    wanted = numbers[",".join(sorted(condition))]

    def holds(_: Event, near: list[Event]) -> bool:
        return sum(e.rule in "ab" for e in near) in wanted

    assert alerts(rule, events) == by_definition(events, holds, "ab")


@given(EVENTS, st.sampled_from([{"gte": 1, "lt": 3}, {"eq": 2}, {"gt": 0, "lte": 1}]))
def test_ranges_of_rules_in_any_order(events: list[Event], condition: dict[str, int]) -> None:
    rule = translated("temporal", condition)
    wanted = {"gte,lt": (1, 2), "eq": (2,), "gt,lte": (1,)}[",".join(sorted(condition))]

    def holds(_: Event, near: list[Event]) -> bool:
        return len({e.rule for e in near} & {*RULES}) in wanted

    assert alerts(rule, events) == by_definition(events, holds)


@given(EVENTS, st.sampled_from(["host", ["host"], ["host", "n"]]), st.integers(1, 3))
def test_values_of_several_fields_are_counted_together(
    events: list[Event], fields: str | list[str], least: int
) -> None:
    """They count exactly, in the span before every event that has all of them."""
    rule = translated("value_count", {"field": fields, "gte": least, "lt": least + 2}, "ab")
    names = [fields] if isinstance(fields, str) else fields

    def values(event: Event) -> tuple[Any, ...]:
        return tuple(getattr(event, name) for name in names)

    def holds(event: Event, near: list[Event]) -> bool:
        known = {values(e) for e in near if e.rule in "ab"}
        number = sum(None not in one for one in known)
        return None not in values(event) and least <= number < least + 2

    assert alerts(rule, events) == by_definition(events, holds, "ab")


@given(EVENTS, st.sampled_from(["value_sum", "value_avg"]))
def test_values_of_several_rules_are_added_up(events: list[Event], kind: str) -> None:
    rule = translated(kind, {"field": "n", "gte": 2, "lt": 5}, "ab")

    def holds(_: Event, near: list[Event]) -> bool:
        numbers = [e.n for e in near if e.rule in "ab"]
        value = sum(numbers) / (len(numbers) if kind == "value_avg" else 1)
        return 2 <= value < 5

    assert alerts(rule, events) == by_definition(events, holds, "ab")


def test_the_median_of_several_rules_is_that_of_all_their_values() -> None:
    rule = translated("value_median", {"field": "n", "gte": 3}, "ab")
    assert rule.outcome is Outcome.NOTED
    events = [Event(n, "ab"[n % 2], "x", None, n) for n in range(1, 5)]
    # The window [0, 10) has 1, 2, 3 and 4; those that begin at 2 s and later have a larger median.
    assert min(second for second, _ in alerts(rule, events)) == 12
