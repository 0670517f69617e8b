"""Correlation rules of Sigma: the rows of their queries, worked out by hand and by definition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.translate.sigma.rules import translate_rules
from cepheid.translate.translated import Log, Outcome, Settings, SourceFile, Translated

SECOND = 1_000_000
LOGS = Settings(logs=(Log({}),))
USERS = ["x", "y", None]


def rules(*correlations: dict[str, Any]) -> list[Translated]:
    """Translate correlations of the rules `fail` (n = 1) and `ok` (n = 2)."""
    return [rule for rule in all_rules(*correlations) if rule.severity]


def all_rules(*correlations: dict[str, Any]) -> list[Translated]:
    """Translate correlations and the rules that stand for themselves."""
    base = [
        {
            "title": name,
            "name": name,
            "logsource": {"category": "login"},
            "detection": {"s": {"n": number}, "condition": "s"},
        }
        for name, number in (("fail", 1), ("ok", 2))
    ]
    text = yaml.safe_dump_all([*base, *correlations])
    return list(translate_rules([SourceFile("rules.yml", text)], LOGS))


def correlation(kind: str, names: list[str], **more: Any) -> dict[str, Any]:
    more = {name.replace("_", "-"): value for name, value in more.items()}
    known = {"type": kind, "rules": names, "timespan": "10s", "group-by": ["user"], **more}
    return {"title": kind, "level": "high", "tags": ["attack.t1110"], "correlation": known}


def rows_of(rule: Translated, events: list[tuple[int, str | None, int]]) -> list[dict[str, Any]]:
    assert not rule.reasons, rule.reasons
    table = pa.table(
        {
            "ts": pa.array([second * SECOND for second, _, _ in events], pa.int64()),
            "type": ["e"] * len(events),
            "user": pa.array([user for _, user, _ in events], pa.string()),
            "n": pa.array([n for _, _, n in events], pa.int64()),
        }
    )
    found: list[dict[str, Any]] = cepheid.query(rule.query).run(table).to_pylist()
    return found


def alerts(rule: Translated, events: list[tuple[int, str | None, int]]) -> list[tuple[int, str]]:
    """Return the seconds and users of the rows."""
    rows = rows_of(rule, events)
    return sorted((row["window_end"] // SECOND, row["user"]) for row in rows)


# second    0    3    5    9   12   14   30
# x         f         f    f    o         f
# y              f              .    o
STREAM: list[tuple[int, str | None, int]] = [
    (0, "x", 1),
    (3, "y", 1),
    (5, "x", 1),
    (9, "x", 1),
    (12, "x", 2),
    (14, "y", 2),
    (30, "x", 1),
]


def test_events_are_counted_by_group_in_the_span_before_each() -> None:
    (rule,) = rules(correlation("event_count", ["fail"], condition={"gte": 2}))
    assert rule.outcome is Outcome.EXACT
    assert (rule.severity, rule.tags) == ("high", ("attack.t1110",))
    assert alerts(rule, STREAM) == [(5, "x"), (9, "x")]


def test_rules_in_any_order_and_in_one() -> None:
    both, after = rules(
        correlation("temporal", ["ok", "fail"]), correlation("temporal_ordered", ["fail", "ok"])
    )
    assert alerts(both, STREAM) == [(12, "x")]
    assert alerts(both, [(0, "x", 2), (1, "x", 1)]) == [(1, "x")]
    assert alerts(after, STREAM) == [(12, "x")]
    assert alerts(after, [(0, "x", 2), (1, "x", 1)]) == []


def test_some_of_the_rules_and_none() -> None:
    one, absent = rules(
        correlation("temporal", ["ok", "fail"], condition={"gte": 1}),
        correlation("temporal", ["ok", "fail"], condition="ok and not fail"),
    )
    assert len(alerts(one, STREAM)) == len(STREAM)
    assert alerts(absent, STREAM) == [(14, "y")]
    assert absent.outcome is Outcome.NOTED


def test_values_are_added_up_and_counted() -> None:
    total, mean, different, median = rules(
        correlation("value_sum", ["fail"], condition={"field": "n", "gt": 2}),
        correlation("value_avg", ["fail"], condition={"field": "n", "lt": 2}),
        correlation("value_count", ["fail"], group_by=["n"], condition={"field": "user", "gte": 2}),
        correlation("value_median", ["fail"], condition={"field": "n", "gte": 1}),
    )
    assert alerts(total, STREAM) == [(9, "x")]
    assert len(alerts(mean, STREAM)) == 5
    assert "not without one" in mean.notes[0]
    assert {row["window_end"] // SECOND for row in rows_of(different, STREAM)} == {3, 5, 9}
    assert different.outcome is Outcome.EXACT
    assert rows_of(median, STREAM)
    assert "windows of 10 seconds, one every 1 second" in median.notes[0]


def test_a_correlation_of_correlations() -> None:
    many = correlation("event_count", ["fail"], condition={"gte": 2}) | {"name": "many"}
    (rule,) = rules(many, correlation("temporal_ordered", ["many", "ok"]))
    assert alerts(rule, STREAM) == [(12, "x")]


def test_a_condition_may_be_all_that_names_the_rules() -> None:
    given = correlation("temporal", [], condition="fail AND ok")
    del given["correlation"]["rules"]
    (rule,) = all_rules(given)
    assert alerts(rule, STREAM) == [(12, "x")]


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        ((Log({"category": "login"}, where="a = 1"), Log({"category": "file"}, where="a = 2")), ""),
        ((Log({"category": "login"}, where="a = 1"), Log({"category": "file"})), "read the logs"),
        ((Log({}, from_="x", where="a = 1"),), ""),
        ((), "read the logs windows_login, windows_file, and a pipeline reads one"),
    ],
)
def test_rules_of_several_logs_read_one_stream_if_conditions_tell_their_events(
    logs: tuple[Log, ...], told: str
) -> None:
    found = [
        {
            "title": name,
            "name": name,
            "logsource": {"product": "windows", "category": name},
            "detection": {"s": {"n": 1}, "condition": "s"},
        }
        for name in ("login", "file")
    ]
    text = yaml.safe_dump_all([*found, correlation("temporal", ["login", "file"])])
    (rule,) = translate_rules([SourceFile("rules.yml", text)], Settings(logs=logs))
    assert told in "".join(rule.reasons)
    assert bool(told) == bool(rule.reasons)
    if not told:
        cepheid.query(rule.query)


def test_aliases_are_fields_of_each_rule() -> None:
    aliases = {"who": {"fail": "user", "ok": "other"}}
    (rule,) = rules(correlation("temporal", ["fail", "ok"], group_by=["who"], aliases=aliases))
    table = pa.table(
        {
            "ts": [0, SECOND],
            "type": ["e", "e"],
            "user": ["x", "z"],
            "other": ["z", "x"],
            "n": [1, 2],
        }
    )
    assert [row["who"] for row in cepheid.query(rule.query).run(table).to_pylist()] == ["x"]


def test_rules_of_a_correlation_stand_alone_if_it_says_so() -> None:
    assert len(all_rules(correlation("temporal", ["fail", "ok"], generate=True))) == 3
    assert len(all_rules(correlation("temporal", ["fail"]))) == 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (correlation("temporal", ["fail", "nobody"]), "`nobody` is not among the rules"),
        (
            correlation("temporal_ordered", ["fail", "ok"], condition={"gt": 2}),
            "no number of the rules meets the condition",
        ),
        (
            correlation("temporal_ordered", ["fail", "ok"], condition="fail or not ok"),
            "`not` needs an event beside it",
        ),
        (
            correlation("event_count", ["fail"], timespan="later", condition={"gte": 1}),
            "no rule of",
        ),
        (
            correlation("value_sum", ["fail"], condition={"field": ["n", "m"], "gt": 1}),
            "counted together, and not added up",
        ),
        (
            correlation("value_percentile", ["fail"], condition={"field": "n", "gt": 1}),
            "without `percentile`",
        ),
        (
            correlation("temporal", ["fail"], group_by=["w"], aliases={"w": {"ok": "user"}}),
            "the alias `w` names no field of the rule `fail`",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(given: dict[str, Any], reason: str) -> None:
    (found,) = rules(given)
    assert found.outcome is Outcome.REFUSED
    assert reason in found.reasons[0]


def test_both_ends_of_a_range_are_numbers() -> None:
    (found,) = all_rules(correlation("event_count", ["fail"], condition={"gte": 1, "lt": "many"}))
    assert "'many' is no valid Sigma correlation condition count" in found.reasons[0]


def test_a_title_is_no_reference() -> None:
    base: dict[str, Any] = {
        "title": "Failed login",
        "name": "fail",
        "logsource": {"category": "login"},
    }
    base["detection"] = {"s": {"n": 1}, "condition": "s"}
    text = yaml.safe_dump_all([base, correlation("temporal", ["Failed login"])])
    *_, found = translate_rules([SourceFile("rules.yml", text)], LOGS)
    assert "is the title of a rule, and correlations know rules by" in found.reasons[0]


def _by_definition(
    events: list[tuple[int, str | None, int]], least: int, kind: str
) -> list[tuple[int, str]]:
    """Look back from every event of a rule, in the span that ends with it."""
    found = set()
    for second, user, n in events:
        near = [m for s, u, m in events if u == user and second - 10 < s <= second]
        counted = n == 1 if kind == "event_count" else n in (1, 2)
        holds = near.count(1) >= least if kind == "event_count" else {1, 2} <= {*near}
        if user is not None and counted and holds:
            found.add((second, user))
    return sorted(found)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(USERS), st.integers(1, 3)), max_size=10),
    st.integers(1, 3),
    st.sampled_from(["event_count", "temporal"]),
)
def test_drawn_events(steps: list[tuple[int, str | None, int]], least: int, kind: str) -> None:
    second, events = 0, []
    for step, user, n in steps:
        second += step
        events.append((second, user, n))
    condition = {"gte": least if kind == "event_count" else 2}
    names = ["fail"] if kind == "event_count" else ["fail", "ok"]
    (rule,) = rules(correlation(kind, names, condition=condition))
    assert sorted({*alerts(rule, events)}) == _by_definition(events, least, kind)
