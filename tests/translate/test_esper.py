"""Modules of EPL: what they become, what is refused, and that matches are those of Esper."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.translate.esper.dialect import ESPER
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Outcome, Settings, Translated


def rules_of(tmp_path: Path, text: str) -> list[Translated]:
    (tmp_path / "module.epl").write_text(text)
    return translate_path(tmp_path, ESPER, Settings())


@pytest.mark.parametrize(
    ("text", "expected", "notes"),
    [
        (
            "select symbol, price from Trade(price > 10) as t where t.size > 3 and symbol != 'x'",
            "SELECT symbol, price FROM Trade WHERE type = 'Trade' AND price > 10 AND (size > 3 AND "
            "symbol <> 'x')",
            0,
        ),
        (
            "select symbol, sum(price) as s from Trade.win:time(30 sec) as t group by t.symbol",
            "RETURN symbol, SUM(e.price) AS s PATTERN Trade e GROUP-BY symbol WITHIN 30 seconds "
            "EMIT ON EXPIRY TIES arrival",
            1,
        ),
        (
            "select symbol, count(*) as n from Trade#time_batch(10 sec) group by symbol",
            "SELECT symbol, COUNT(*) AS n FROM Trade WHERE type = 'Trade' GROUP BY symbol "
            "WINDOW 10 seconds",
            2,
        ),
        (
            "select count(*) as n from Trade#length_batch(100)",
            "SELECT COUNT(*) AS n FROM Trade WHERE type = 'Trade' WINDOW 100 EVENTS",
            1,
        ),
        (
            "select a.id, b.x as y from A#time(10 min) as a, B(x > 1)#time(5 min) as b "
            "where a.id = b.id",
            "SELECT a.id AS a_id, b.x AS y FROM A a WITHIN 10 minutes JOIN B b WITHIN 5 minutes "
            "ON b.x > 1 AND a.id = b.id",
            1,
        ),
        (
            "select a.x, c.y from pattern [every a=A -> b=B -> c=C where timer:within(5 sec)]",
            "RETURN a.x, c.y PATTERN SEQ(A a, B b, C c) SEMANTICS skip-till-next-match "
            "WHERE c.ts - b.ts < 5 seconds TIES arrival",
            0,
        ),
        (
            "select * from pattern [every a=A -> (b=B(k = a.k) and not C(k = a.k))]",
            "RETURN MATCHES PATTERN SEQ(A a, NOT C, B b) SEMANTICS skip-till-next-match WHERE [k] "
            "TIES arrival",
            0,
        ),
        (
            "select a.x from pattern [every (a=A(x > 1) -> b=B)]",
            "RETURN a.x PATTERN SEQ(A a, B b) SEMANTICS skip-till-next-match WHERE a.x > 1 "
            "TIES arrival AFTER MATCH SKIP PAST LAST",
            0,
        ),
    ],
)
def test_statements_become_queries(text: str, expected: str, notes: int, tmp_path: Path) -> None:
    (rule,) = rules_of(tmp_path, text)
    assert not rule.reasons
    assert " ".join(rule.query.split()) == expected
    assert len(rule.notes) == notes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("select a.x from pattern [a=A -> b=B]", "without `every`"),
        ("select a.x from pattern [every a=A -> b=B(x > a.x) -> c=C(x > a.x)]", "no neighbours"),
        ("select a.x from pattern [every a=A -> (b=B and not C(x > a.x))]", "must not come"),
        ("select a.x from pattern [every (a=A -> b=B(x = a.x))]", "conditions between events"),
        ("select a.x from pattern [every a=A where timer:within(1 sec) -> b=B]", "of the first"),
        ("select a.x from pattern [every a=A -> every b=B -> c=C]", "some of the later events"),
        ("select a.x from pattern [every a=A or b=B]", "`or`"),
        ("select count(*) from pattern [every a=A -> b=B]", "around a pattern"),
        ("select c.x from pattern [every a=A -> b=B]", "no attribute of an event"),
        ("select count(*) from A#length(3)", "a row for every event"),
        ("select count(*) from A", "no window"),
        ("select x, count(*) from A#time(1 sec)", "neither grouped nor aggregated"),
        ("select count(distinct x) from A#time(1 sec)", "`count` of values"),
        ("select * from A#unique(x)", "`#unique`"),
        ("select x from A output every 1 min", "`output`"),
        ("select irstream x from A", "`select irstream`"),
        ("select foo(x) from A", "the function `foo`"),
        ("select x || y from A", "`||`"),
        ("select * from A where x like 'a\\\\_'", "backslash"),
        ("select a.x from A#time(1 sec) as a, B as b", "a join is one of two"),
        ("insert into X select * from A; select * from X", "filled by another statement"),
        ("on A update B", "`on` begins no query"),
        ("select", "cannot be read"),
        ("select x from A(", "cannot be read|brackets"),
    ],
)
def test_what_has_no_counterpart_is_refused(text: str, why: str, tmp_path: Path) -> None:
    rule = rules_of(tmp_path, text)[-1]
    assert rule.outcome is Outcome.REFUSED
    assert any(part in rule.reasons[0] for part in why.split("|") if part) or why in rule.reasons[0]


def test_names_come_from_annotations_and_streams(tmp_path: Path) -> None:
    text = "@public @x(y = 1) create objectarray schema A(x int);"
    text += "@Name('one') select x from A; insert into Two select x from A;"
    assert [rule.name for rule in rules_of(tmp_path, text)] == ["one", "Two"]


def test_a_row_pattern_runs(tmp_path: Path) -> None:
    text = """select * from Tick match_recognize (partition by k measures a.x as p, b.x as q
              pattern (a b) define b as b.x > prev(b.x))"""
    (rule,) = rules_of(tmp_path, text)
    assert rule.notes == ("the events are those of `Tick` alone",)
    ticks = pa.table({"ts": range(4), "type": ["Tick"] * 4, "k": [1] * 4, "x": [3, 1, 2, 5]})
    rows = cepheid.query(rule.query).run(ticks).to_pylist()
    assert [(row["p"], row["q"]) for row in rows] == [(1, 2)]


def _followed_by(events: list[dict[str, Any]], least: int) -> list[tuple[int, int]]:
    """Find, as Esper defines it, for every A the first B of its key that is larger, in time."""
    found = []
    for place, a in enumerate(events):
        if a["type"] != "A":
            continue
        for b in events[place + 1 :]:
            if b["ts"] - a["ts"] >= 5_000_000:
                break
            if b["type"] == "B" and b["k"] == a["k"] and b["x"] > a["x"] + least:
                found.append((a["n"], b["n"]))
                break
    return found


def _absent(events: list[dict[str, Any]]) -> list[int]:
    """Find every A that no B of its key follows within five seconds."""
    return [
        a["n"]
        for place, a in enumerate(events)
        if a["type"] == "A"
        and not any(
            b["type"] == "B" and b["k"] == a["k"] and b["ts"] - a["ts"] < 5_000_000
            for b in events[place + 1 :]
        )
    ]


def test_matches_are_those_of_the_definition(tmp_path: Path) -> None:
    followed, absent = rules_of(
        tmp_path,
        """select a.n, b.n from pattern [every a=A -> b=B(k = a.k, x > a.x + 1)
               where timer:within(5 sec)];
           select a.n from pattern [every a=A -> (timer:interval(5 sec) and not B(k = a.k))];""",
    )
    rng, count = random.Random(3), 0
    for _ in range(40):
        seconds, events = 0, []
        for number in range(rng.randint(2, 25)):
            seconds += rng.choice([0, 1, 1, 2])
            kind, key, x = rng.choice("AB"), rng.randint(0, 1), rng.randint(0, 5)
            events.append({"ts": seconds * 1_000_000, "type": kind, "k": key, "x": x, "n": number})
        if {event["type"] for event in events} != {"A", "B"}:
            continue
        table = pa.Table.from_pylist(events)
        rows = cepheid.query(followed.query).run(table).to_pylist()
        pairs = sorted((row["a_n"], row["b_n"]) for row in rows)
        assert pairs == sorted(_followed_by(events, 1)), events
        count += len(pairs)
        rows = cepheid.query(absent.query).run(table).to_pylist()
        inside = [row["a_n"] for row in rows]
        assert sorted(inside) == sorted(_absent(events)), events
    assert count > 50
