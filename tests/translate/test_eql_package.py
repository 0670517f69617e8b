"""The Python package ``eql`` and Cepheid give the same results: its own tests, and random ones."""

from __future__ import annotations

import json
import random
import re
import tomllib
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.translate.judge import FOLDER, judge, needs_eql

import cepheid
from cepheid.translate.columns import types_of
from cepheid.translate.eql.meaning import PYTHON, PYTHON_BY_CASE, Meaning
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import CannotTranslateError, Settings

pytestmark = needs_eql

ABSENT = ("bad_field", "missing_field", "fake_field", "null_field", "invalid_field_name")
"""Fields that queries name and no event has."""

SAME = {"event": 160, "several": 46}
"""How many of the 187 queries for events and 54 sequences and joins are carried over."""

PAGE = Path(__file__).parents[2] / "docs/translate.md"
BEGIN = "<!-- Made by the tests: pytest tests/translate/test_eql_package.py --update-golden -->\n"
END = "<!-- End of what the tests make. -->\n"


def _table(events: list[dict[str, Any]], absent: tuple[str, ...] = ()) -> pa.Table:
    names = dict.fromkeys(name for event in events for name in event)
    table = pa.Table.from_pylist([{name: event.get(name) for name in names} for event in events])
    for name in absent:
        table = table.append_column(name, pa.nulls(len(events), pa.string()))
    # The package counts tenths of a microsecond.
    times = pa.array([event["timestamp"] // 10 for event in events], pa.int64())
    return table.append_column("ts", times)


def _settings(table: pa.Table) -> Settings:
    return Settings(type="event_type", time="ts", types=types_of(table.schema))


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
    # A note says that matches also have the events by which a process is known.
    related = re.search(r"\b(event|child|descendant) of", text)
    return [row[-1:] for row in found] if related else found


def _listed(refused: dict[str, list[int]]) -> str:
    """Write a table of the reasons and the numbers of the queries, beginning with 1."""
    lines = ["\n| why it is not carried over | numbers |\n", "|---|---|\n"]
    for reason, numbers in refused.items():
        lines.append(f"| {reason} | {', '.join(map(str, numbers))} |\n")
    return "".join([*lines, "\n"])


def test_the_queries_of_the_package_have_the_results_that_it_expects(
    request: pytest.FixtureRequest,
) -> None:
    data = FOLDER / "eql" / "etc"
    events = json.loads((data / "test_data.json").read_text(encoding="utf-8"))
    queries = tomllib.loads((data / "test_queries.toml").read_text(encoding="utf-8"))["queries"]
    table = _table(events, ABSENT)
    assert len(queries) == 241
    same: Counter[str] = Counter()
    refused: dict[str, list[int]] = {}
    for position, one in enumerate(queries, 1):
        text, expected = one["query"], one["expected_event_ids"]
        by_case, any_case = one.get("case_sensitive"), one.get("case_insensitive")
        meanings = [PYTHON] * (not by_case) + [PYTHON_BY_CASE] * (not any_case)
        try:
            found = [_answer(text, table, each, "serial_event_id") for each in meanings]
        except CannotTranslateError as error:
            reason = str(error).replace("`mysterious_field`", "the field")
            refused.setdefault(reason, []).append(position)
            continue
        for rows in found:
            assert [number for row in rows for number in row] == expected, text
        same["several" if text.split()[0] in ("sequence", "join") else "event"] += 1
    assert dict(same) == SAME, refused
    assert sum(map(len, refused.values())) == len(queries) - same.total()
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    listed, end, after = rest.partition(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text("".join([before, begin, _listed(refused), end, after]), "utf-8")
        return
    assert listed == _listed(refused), "write it anew: --update-golden"


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


def test_random_unique_events_are_those_of_the_package() -> None:
    """The first event of each value, also of those that lack it."""
    rng = random.Random(11)
    jobs: list[dict[str, Any]] = []
    for _ in range(60):
        keys = rng.choice(["x", "s", "j", "k, s", "j, s", "length(s)", "x > 1", "x + k"])
        before = rng.choice(["", "", "| filter k == 1 "])
        after = rng.choice(["", "", "| filter x > 0 ", "| head 2", "| filter x > 0 | head 1"])
        query = f"any where x != {rng.randint(0, 3)} {before}| unique {keys} {after}"
        jobs.append({"query": query, "events": _draw_events(rng)})
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])


def test_random_first_and_last_events_are_those_of_the_package() -> None:
    """The package takes the first or last events of those that came through the pipes before."""
    rng = random.Random(13)
    jobs: list[dict[str, Any]] = []
    for _ in range(80):
        before = rng.choice(["", "", "| filter k == 1 "])
        cut = rng.choice(["tail", "tail", "head"])
        behind = ["| filter x > 0 ", "| filter x > 0 | filter k == 1", "| filter j == 1 | head 1"]
        if cut == "tail":
            behind += ["", "", "| head 2"]
        query = f"any where x != {rng.randint(0, 3)} {before}"
        query += f"| {cut} {rng.randint(1, 6)} {rng.choice(behind)}"
        jobs.append({"query": query, "events": _draw_events(rng)})
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])


def _keyed_sequence(rng: random.Random) -> str:
    """Draw a sequence or join whose keys differ by category, beside `until` or a fork."""
    keys = {"a": rng.choice(["k", "j"]), "b": rng.choice(["k + 1", "x", "j"]), "c": "x"}

    def part(category: str) -> str:
        return f"[{category} where {rng.choice(['true', 'x != 2'])}]"

    stages = [rng.choice("abc") for _ in range(rng.randint(2, 3))]
    if rng.random() < 0.3:
        stages = rng.sample("abc", 2)
        parts = " ".join(f"{part(one)} by {keys[one]}" for one in stages)
        return (
            f"join {parts} until {part('process')} by k" if rng.random() < 0.3 else f"join {parts}"
        )
    forks = ["", *(rng.choice(["", " fork=true"]) for _ in stages[1:])]
    text = " ".join(
        f"{part(one)}{fork} by {keys[one]}" for one, fork in zip(stages, forks, strict=True)
    )
    last = rng.choice("abc")
    until = f" until {part(last)} by {keys[last]}" if rng.random() < 0.5 else ""
    return f"sequence{rng.choice(['', ' with maxspan=5s'])} {text}{until}"


@pytest.mark.parametrize("seed", range(2))
def test_random_keys_that_differ_and_forks_select_what_the_package_selects(seed: int) -> None:
    """Keys are columns of a stream; a fork leaves the pending match of the stage before."""
    rng = random.Random(100 + seed)
    jobs: list[dict[str, Any]] = [
        {"query": _keyed_sequence(rng), "events": _draw_events(rng)} for _ in range(60)
    ]
    found = 0
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])
        found += len(expected)
    assert found > 30


def test_random_texts_between_others_are_those_of_the_package() -> None:
    """Up to the first text, and with `true` up to the last one."""
    rng = random.Random(5)
    jobs: list[dict[str, Any]] = []
    for _ in range(60):
        left, right = ("".join(rng.choices("abA", k=rng.randint(1, 2))) for _ in range(2))
        last = rng.choice(["", ", false", ", true", ", true"])
        wanted = "".join(rng.choices("ab", k=rng.randint(0, 2)))
        query = f'any where between(s, "{left}", "{right}"{last}) == "{wanted}"'
        events = [
            event | {"s": "".join(rng.choices("abB", k=rng.randint(0, 6)))}
            for event in _draw_events(rng)
        ]
        jobs.append({"query": query, "events": events})
    found = 0
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], [event["s"] for event in job["events"]])
        found += len(expected)
    assert found > 30


def _draw_processes(rng: random.Random) -> list[dict[str, Any]]:
    """Draw processes that start others, work and end; ids are used once."""
    alive, started = [1], 1
    events: list[dict[str, Any]] = []
    for number in range(rng.randint(10, 30)):
        event: dict[str, Any] = {"timestamp": number * 10_000_000, "id": number}
        own = rng.choice(alive)
        kinds = ["create", "create", "file", "file", "process"]
        kind = rng.choice(kinds if own == 1 else [*kinds, "terminate"])
        event |= {"event_type": "process", "subtype": kind, "unique_pid": own, "unique_ppid": 0}
        event["x"] = rng.randint(0, 3)
        if kind == "create":
            started += 1
            alive.append(started)
            event |= {"unique_pid": started, "unique_ppid": own}
        elif kind == "file":
            event |= {"event_type": "file", "subtype": "open"}
        elif kind == "terminate":
            alive.remove(own)
        # The package asks for these, too.
        events.append(event | {"pid": event["unique_pid"], "ppid": event["unique_ppid"]})
    return events


def test_random_relations_of_processes_are_those_of_the_package() -> None:
    rng, relations = random.Random(3), ["event", "child", "descendant", "descendant"]

    def related(depth: int) -> str:
        kind, least = rng.choice(["any", "file", "process"]), rng.randint(0, 3)
        inner = f" and {related(depth - 1)}" if depth else ""
        return f"{rng.choice(relations)} of [{kind} where x == {least}{inner}]"

    jobs: list[dict[str, Any]] = []
    for _ in range(60):
        query = f"{rng.choice(['any', 'file', 'process'])} where {related(rng.choice([0, 0, 1]))}"
        query += rng.choice(["", "", " | filter x > 1", " | head 2"])
        jobs.append({"query": query, "events": _draw_processes(rng)})
    found = 0
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], job["events"])
        found += len(expected)
    assert found > 30


def test_random_conditions_on_lists_are_those_of_the_package() -> None:
    """Places count from 0, and a text of a list is compared as any other."""
    rng = random.Random(9)
    jobs: list[dict[str, Any]] = []
    for _ in range(80):
        text = "".join(rng.choices("aAb.*", k=rng.randint(1, 2)))
        condition = rng.choice(
            [
                f't[{rng.randint(0, 2)}] == "{text}"',
                f't[{rng.randint(0, 2)}] != "{text}"',
                f't[{rng.randint(0, 1)}] in ("{text}", "b")',
                f'arrayContains(t, "{text}", "ab")',
                f'not arrayContains(t, "{text}")',
                f'arraySearch(t, s, s == "{text}")',
                f'arraySearch(t, s, endsWith(s, "{text}"))',
                f'arraySearch(t, s, startsWith(s, "{text}"))',
                f'arraySearch(t, s, stringContains(s, "{text}"))',
                f'arraySearch(t, s, s in ("{text}", "b"))',
                f'arraySearch(t, s, wildcard(s, "{text}", "b*"))',
                f"length(t) > {rng.randint(0, 2)}",
            ]
        )
        events = [
            event | {"t": ["".join(rng.choices("aAb.", k=2)) for _ in range(rng.randint(0, 3))]}
            for event in _draw_events(rng)
        ]
        jobs.append({"query": f"any where {condition}", "events": events})
    found = 0
    for job, expected in zip(jobs, judge(jobs), strict=True):
        actual = _answer(job["query"], _table(job["events"]), PYTHON, "id")
        assert actual == expected, (job["query"], [event["t"] for event in job["events"]])
        found += len(expected)
    assert found > 30
