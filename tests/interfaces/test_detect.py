"""``cepheid detect`` runs rules over files, and writes alerts as ECS and OCSF."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

from cepheid.interfaces.alert_formats import Alert, as_ecs, as_ocsf
from cepheid.interfaces.cli import app

EVENTS: list[dict[str, Any]] = [
    {"@timestamp": "2026-01-31T10:00:00Z", "event": {"category": "file"}, "pid": 1, "name": "A"},
    {"@timestamp": "2026-01-31T10:00:01Z", "event": {"category": "process"}, "pid": 1, "name": "B"},
    {"@timestamp": "2026-01-31T10:00:02Z", "event": {"category": "process"}, "pid": 2, "name": "C"},
]
RULE = """
[rule]
name = "A process of a new file"
severity = "high"
author = ["Ann"]
language = "eql"
query = "sequence by pid with maxspan=1m [file where true] [process where true]"
[[rule.threat]]
[rule.threat.tactic]
id = "TA0002"
[[rule.threat.technique]]
id = "T1059"
[[rule.threat.technique.subtechnique]]
id = "T1059.001"
"""
COLUMNS = ("--time", "@timestamp", "--type", "event.category")


def _run(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app.typer(), words)
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Translate a sequence and a filter that names a field which no event has."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rule.toml").write_text(RULE)
    text = 'process where name : ("c", "d") and ?user.name == null'
    (tmp_path / "in" / "filter.eql").write_text(text)
    words = ("--from", "eql", "-o", str(tmp_path / "rules"), *COLUMNS)
    assert "2 rules: 2 exact" in _run("translate", str(tmp_path / "in"), *words).output
    return tmp_path / "rules"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_in_any_order_give_the_same_alerts(tmp_path: Path) -> None:
    """Filters alone do not complain about the order, and must not lose late events either."""
    (tmp_path / "rules").mkdir()
    for name in "bc":
        (tmp_path / "rules" / f"{name}.cq").write_text(f"SELECT * FROM s WHERE name LIKE '{name}%'")
    rows = [{"ts": f"2026-01-31T10:{n:02d}:00Z", "name": "bc"[n % 2]} for n in range(40)]
    found = []
    for order in (rows, rows[::-1], random.Random(1).sample(rows, 40)):
        events, alerts = tmp_path / "events.jsonl", tmp_path / "alerts.jsonl"
        events.write_text("\n".join(map(json.dumps, order)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Sorting is told.
            _run("detect", str(tmp_path / "rules"), "--input", str(events), "-o", str(alerts))
        found.append(len(_lines(alerts)))
    assert found == [40, 40, 40]


def test_alerts_have_the_rule_its_tags_and_the_events(rules: Path, tmp_path: Path) -> None:
    events, alerts = tmp_path / "events.jsonl", tmp_path / "alerts.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    done = _run("detect", str(rules), "--input", str(events), "-o", str(alerts), *COLUMNS)
    assert "no event has these fields, which are NULL: user.name" in done.output
    assert "3 events read" in done.output
    assert "2 alerts" in done.output
    sequence, single = _lines(alerts)
    assert sequence["rule"] == {"name": "A process of a new file", "author": ["Ann"]}
    assert sequence["@timestamp"] == "2026-01-31T10:00:01.000000Z"
    assert sequence["event"]["severity"] == 73
    technique = {"id": ["T1059"], "subtechnique": {"id": ["T1059.001"]}}
    assert sequence["threat"]["technique"] == technique
    assert sequence["threat"]["tactic"] == {"id": ["TA0002"]}
    assert [event["name"] for event in sequence["cepheid"]["events"]] == ["A", "B"]
    (event,) = single["cepheid"]["events"]
    assert event["name"] == "C"
    assert event["@timestamp"] == "2026-01-31T10:00:02Z"
    assert "user.name" not in event


def test_all_kinds_of_files_give_the_same_alerts(rules: Path, tmp_path: Path) -> None:
    flat = [{**event, "event.category": event["event"]["category"]} for event in EVENTS]
    table = pa.Table.from_pylist([{k: v for k, v in one.items() if k != "event"} for one in flat])
    parquet.write_table(table, tmp_path / "e.parquet")
    csv.write_csv(table, tmp_path / "e.csv")
    found = []
    for name in ("e.parquet", "e.csv"):
        words = ("--input", str(tmp_path / name), "--format", "ocsf", *COLUMNS)
        lines = _run("detect", str(rules), *words).stdout.splitlines()
        found.append([json.loads(line) for line in lines if line.startswith("{")])
    first, second = found
    assert [one["message"] for one in first] == ["A process of a new file", "filter"]
    assert [one["time"] for one in first] == [1769853601000, 1769853602000]
    assert first[0]["severity_id"] == 4
    assert first[0]["class_uid"] == 2004
    attacks = [{"technique": {"uid": "T1059"}}, {"technique": {"uid": "T1059.001"}}]
    assert first[0]["finding_info"]["attacks"] == [*attacks, {"tactic": {"uid": "TA0002"}}]
    assert [one["message"] for one in second] == [one["message"] for one in first]


def test_a_rule_that_does_not_fit_is_refused_alone(rules: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    (rules / "wrong.cq").write_text("SELECT * FROM log WHERE pid LIKE 'a%'")
    done = _run("detect", str(rules), "--input", str(events), *COLUMNS, code=1)
    assert "1 of 3 rules is refused: wrong" in done.output
    assert "2 alerts" in done.output


def test_an_alert_without_time_or_severity_has_neither() -> None:
    alert = Alert("r", "limit=3", "", ("attack.defense_evasion",), "", None, {"x": 1, "y": None})
    assert as_ecs(alert)["@timestamp"] is None
    assert as_ecs(alert)["cepheid"] == {"variant": "limit=3", "events": [{"x": 1}]}
    assert as_ecs(alert)["threat"]["tactic"] == {"id": ["TA0005"]}
    assert as_ocsf(alert)["severity"] == "Unknown"
    assert as_ocsf(alert)["time"] is None
    same = alert._replace(row={"x": 1, "y": None})
    assert alert.uid == same.uid != alert._replace(rule="s").uid
    late = alert._replace(at_ns=10**30)
    assert as_ecs(late)["@timestamp"] is None
    exact = alert._replace(at_ns=1_000_000_001)
    assert as_ecs(exact)["@timestamp"] == "1970-01-01T00:00:01.000000001Z"
