"""The Python package ``eql`` and Cepheid give the same results: its own tests, and random ones."""

from __future__ import annotations

import json
import random
import tomllib
import warnings
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests.translate.judge import FOLDER, judge, needs_eql

import cepheid
from cepheid.events.schema import read_schema
from cepheid.translate.eql.meaning import PYTHON, PYTHON_BY_CASE, Meaning
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import CannotTranslateError, Settings

pytestmark = needs_eql

ABSENT = ("bad_field", "missing_field", "fake_field", "null_field", "invalid_field_name")
"""Fields that queries name and no event has."""

SAME = {"event": 121, "several": 36}
"""How many of the 187 queries for events and 54 sequences and joins are carried over."""


def _table(events: list[dict[str, Any]], absent: tuple[str, ...] = ()) -> pa.Table:
    names = dict.fromkeys(name for event in events for name in event)
    table = pa.Table.from_pylist([{name: event.get(name) for name in names} for event in events])
    for name in absent:
        table = table.append_column(name, pa.nulls(len(events), pa.string()))
    # The package counts tenths of a microsecond.
    times = pa.array([event["timestamp"] // 10 for event in events], pa.int64())
    return table.append_column("ts", times)


def _settings(table: pa.Table) -> Settings:
    schema = read_schema(table)
    assert schema is not None
    types = {one.name: one.kind.value for one in schema.columns}
    return Settings(type="event_type", time="ts", types=types)


def _answer(text: str, table: pa.Table, meaning: Meaning, name: str) -> list[list[int]]:
    """Answer a query by Cepheid; events of a match come in the order of its parts."""
    written = write_query(text, _settings(table), meaning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = cepheid.query(written.query, type="event_type").run(table).to_pylist()
    found = []
    for row in rows:
        events = sorted(row.get("events", [row]), key=lambda e: str(e.get("variable", "")))
        found.append([event[name] for event in events])
    return found


def test_the_queries_of_the_package_have_the_results_that_it_expects() -> None:
    data = FOLDER / "eql" / "etc"
    events = json.loads((data / "test_data.json").read_text(encoding="utf-8"))
    queries = tomllib.loads((data / "test_queries.toml").read_text(encoding="utf-8"))["queries"]
    table = _table(events, ABSENT)
    assert len(queries) == 241
    same: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for one in queries:
        text, expected = one["query"], one["expected_event_ids"]
        by_case, any_case = one.get("case_sensitive"), one.get("case_insensitive")
        meanings = [PYTHON] * (not by_case) + [PYTHON_BY_CASE] * (not any_case)
        try:
            found = [_answer(text, table, each, "serial_event_id") for each in meanings]
        except CannotTranslateError as error:
            refused[str(error)] += 1
            continue
        for rows in found:
            assert [number for row in rows for number in row] == expected, text
        same["several" if text.split()[0] in ("sequence", "join") else "event"] += 1
    assert dict(same) == SAME, refused.most_common()


def _draw_events(rng: random.Random) -> list[dict[str, Any]]:
    time, events = 0, []
    for number in range(rng.randint(8, 30)):
        time += rng.choice([0, 1, 1, 2, 5]) * 10_000_000
        event = {"event_type": rng.choice("abc"), "timestamp": time, "id": number}
        event |= {"x": rng.randint(0, 3), "k": rng.randint(0, 1), "j": rng.choice([0, 1, None])}
        events.append(event | {"s": rng.choice(["p", "P", "q"])})
    return events


def _draw_sequence(rng: random.Random) -> str:
    key = rng.choice(["", "", "by k", "by j", "by s", "by k, s", "each"])
    span = rng.choice(["", "", " with maxspan=2s", " with maxspan=5s"])
    conditions = ["true", "true", "x > 0", "x == 1", "x != 2", "k == x", "x < 2 or k == 1"]

    def events() -> str:
        return f"[{rng.choice(['a', 'b', 'c', 'any', 'any'])} where {rng.choice(conditions)}]"

    own = rng.choice([["k", "k", "j", "k"], ["k", "j", "k", "j"], ["k + 1", "k", "k", "j"]])
    stages = [
        events() + (f" by {own[n]}" if key == "each" else "") for n in range(rng.randint(2, 4))
    ]
    until = f" until {events()}" if key in ("", "by k") and rng.random() < 0.3 else ""
    shared = "" if key == "each" else f" {key}"
    return f"sequence{shared}{span} {' '.join(stages)}{until}"


@pytest.mark.parametrize("seed", range(4))
def test_random_sequences_select_what_the_package_selects(seed: int) -> None:
    """A later event takes the place of the pending one of its stage (docs/semantics.md §14.6)."""
    rng = random.Random(seed)
    jobs: list[dict[str, Any]] = [
        {"query": _draw_sequence(rng), "events": _draw_events(rng)} for _ in range(50)
    ]
    found = 0
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])
        found += len(expected)
    assert found > 30


def test_random_joins_select_what_the_package_selects() -> None:
    rng = random.Random(7)
    jobs: list[dict[str, Any]] = []
    for _ in range(60):
        key = rng.choice(["", "by k"])
        parts = " ".join(f"[{one} where x != {rng.randint(0, 3)}]" for one in rng.sample("abc", 2))
        until = rng.choice(["", "", " until [process where true]", " until [d where true]"])
        jobs.append({"query": f"join {key} {parts}{until}", "events": _draw_events(rng)})
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])
