"""The page `coming-from`: what it shows of other languages becomes the query below it."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from benchmarks.peers.coming_from import events_of
from tests.translate.judge import judge, needs_eql

import cepheid
from cepheid.language.formatter import format_text
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Settings

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
PAIR = re.compile(
    r"^```text ([\w-]+)\n(.*?)^```\n.*?^```(cepheid|sql)[^\n]*\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ENDINGS = {
    "esper": ".epl",
    "sigma": ".yml",
    "flink-sql": ".sql",
    "eql": ".eql",
    "eql-python": ".eql",
}


class Pair(NamedTuple):
    """A text of another language, and the query that the page shows below it."""

    dialect: str
    text: str
    query: str


def pairs() -> list[Any]:
    return [
        pytest.param(Pair(match[1], match[2], match[4]), id=f"{match[1]}-{number}")
        for number, match in enumerate(PAIR.finditer(PAGE.read_text("utf-8")))
    ]


def _plain(query: str) -> str:
    return " ".join(format_text(query).split())


@pytest.mark.parametrize("pair", pairs())
def test_the_other_side_becomes_the_query_below_it(pair: Pair, tmp_path: Path) -> None:
    dialect = DIALECTS[pair.dialect]
    file = tmp_path / f"rule{ENDINGS.get(pair.dialect, f'.{pair.dialect}')}"
    file.write_text(pair.text)
    rules = translate_path(file, dialect, Settings(type=dialect.type))
    rule = rules[-1]
    assert not rule.reasons, rule.reasons
    assert _plain(rule.query) == _plain(pair.query)


@needs_eql
def test_the_package_eql_gives_the_same_answers() -> None:
    text = 'process where process_name == "cmd.exe" and not user_name in ("SYSTEM", "admin")'
    written = next(p.values[0] for p in pairs() if p.values[0].text.strip() == text)
    rng = random.Random(1)
    events = [
        {
            "event_type": rng.choice(["process", "file"]),
            "timestamp": number * 10_000_000,
            "id": number,
            "process_name": rng.choice(["cmd.exe", "CMD.exe", "sh"]),
            "user_name": rng.choice(["system", "Admin", "ann"]),
        }
        for number in range(100)
    ]
    (expected,) = judge([{"query": text, "events": json.loads(json.dumps(events))}])
    table = pa.Table.from_pylist(events).rename_columns({"timestamp": "ts"})
    rows = cepheid.query(written.query, type="event_type").run(table).to_pylist()
    assert [[row["id"]] for row in rows] == expected
    assert expected


CASES = json.loads((Path(__file__).parent / "coming_from.json").read_text("utf-8"))
FUNNEL = "RETURN FUNNEL(user) PATTERN SEQ(view v, cart c, buy b) GROUP-BY user WITHIN 1 minute"


def _value(value: Any) -> Any:
    """Read a value as numbers, times or text, whatever a system wrote it as."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    for read in (float, dt.datetime.fromisoformat):
        try:
            return read(str(value))
        except ValueError:
            continue
    return str(value)


def _query_below(text: str) -> str:
    """Find the query that the page shows below a text; the clause of Flink is a query as it is."""
    page = PAGE.read_text("utf-8")
    assert page.count(text) == 1
    if "MATCH_RECOGNIZE" in text:
        return text
    found = re.search(r"^```cepheid\n(.*?)^```$", page.split(text)[1], re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def _rows(name: str, text: str) -> list[dict[str, Any]]:
    """Answer the other side's question by Cepheid, over the same events."""
    events = [dict(one) for one in events_of(name)]
    for event in events:
        # ClickHouse compares whole seconds.
        ms = event.pop("ms")
        ms = ms // 1000 * 1000 if name.startswith("clickhouse") else ms
        event["ts"] = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)  # UTC
    if name == "clickhouse funnel":
        rows = cepheid.query(FUNNEL).run(pa.Table.from_pylist(events)).to_pylist()
        levels = {row["user"]: row["step"] for row in rows if row["keys"]}
        return [{"user": user, "level": level} for user, level in levels.items()]
    query = cepheid.query(_query_below(text))
    if " o JOIN " in query.text:
        kinds = {event["type"]: None for event in events}
        tables = {
            kind: pa.Table.from_pylist([one for one in events if one["type"] == kind])
            for kind in kinds
        }
        found: Any = query.run(tables)
    else:
        found = query.run(pa.Table.from_pylist(events))
    rows = found.to_pylist()
    return [row for row in rows if row.get("chains") != 0]


CEP = [name for name in CASES if name.startswith("flink cep")]


@pytest.mark.parametrize("name", CEP)
def test_flink_cep_found_the_same_matches(name: str) -> None:
    """Matches are known by the times of their events; an order that is late, by its own."""
    theirs = sorted([int(ms) for ms in row["times"].split()] for row in CASES[name]["rows"])
    assert len(theirs) > 1
    events = events_of(name)
    table = pa.Table.from_pylist([{**event, "ts": event["ms"] * 1000} for event in events])
    rows = cepheid.query(_query_below(CASES[name]["text"])).run(table).to_pylist()
    if "count" in rows[0]:
        assert sum(row["count"] for row in rows) == len(theirs)
        return
    begun = {event.get("id"): event["ms"] for event in events if event["type"] == "order"}
    ours = [
        [event["ms"] for event in row["events"]] if "events" in row else [begun[row["o_id"]]]
        for row in rows
    ]
    assert sorted(ours) == theirs


@pytest.mark.parametrize("name", [name for name in CASES if name not in CEP])
def test_the_other_system_gave_the_same_answer(name: str) -> None:
    """Its answers are written by `python -m benchmarks.peers.coming_from`."""
    case = CASES[name]
    theirs = [row for row in case["rows"] if row.get("chains") != "0"]
    assert len(theirs) > 1
    ours = _rows(name, case["text"])
    # What is `a.card` there is `a_card` here; beside, rows may tell their window.
    names = [name for name in theirs[0] if name.replace(".", "_") in ours[0]]
    assert set(theirs[0]) - set(names) <= {"window_time"}

    def seen(rows: list[dict[str, Any]], *, here: bool) -> list[str]:
        read = [name.replace(".", "_") if here else name for name in names]
        return sorted(str([_value(row[name]) for name in read]) for row in rows)

    assert seen(ours, here=True) == seen(theirs, here=False)
