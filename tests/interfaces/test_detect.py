"""``cepheid detect`` runs rules over files, and writes alerts as ECS and OCSF."""

from __future__ import annotations

import json
import random
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyspark.sql import SparkSession
from tests.interfaces.program import run, run_in
from typer.testing import CliRunner

from cepheid.errors import DataError
from cepheid.events.files import read_all
from cepheid.events.windows_log import read_windows_log
from cepheid.interfaces import cli
from cepheid.interfaces.alert_formats import Alert, as_ecs, as_ocsf
from cepheid.interfaces.cli import app
from cepheid.interfaces.cli_input import WrongUseError

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


def test_of_many_absent_fields_some_are_named(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    names = [f"f{number:02}" for number in range(30)]
    for name in names:
        text = f"SELECT * FROM log WHERE {name} = 1"
        (tmp_path / "rules" / f"{name}.cq").write_text(text)
    events = tmp_path / "events.jsonl"
    events.write_text('{"ts": "2026-01-31T10:00:00Z", "type": "a"}')
    done = _run("detect", str(tmp_path / "rules"), "--input", str(events))
    told = f"which are NULL: {', '.join(names[:20])} and 10 others\n"
    assert told in done.output


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


@pytest.mark.parametrize("kind", ["ecs", "ocsf"])
def test_a_backtest_writes_the_alerts_that_detect_writes(
    kind: str, rules: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    (rules / "filter.cq").unlink()  # A backtest refuses a field that no event has.
    files = [tmp_path / "detected.jsonl", tmp_path / "tested.jsonl"]
    same = (str(rules), "--input", str(events), *COLUMNS)
    _run("detect", *same, "--format", kind, "-o", str(files[0]))
    _run("backtest", *same, "--alerts", str(files[1]), "--alert-format", kind)
    detected, tested = map(_lines, files)
    assert tested == detected
    assert "T1059.001" in json.dumps(tested)
    table = tmp_path / "rows.json"
    _run("backtest", *same, "--alerts", str(table))
    (row,) = _lines(table)
    assert (row["owner"], "attack.t1059.001" in row["tags"].split(",")) == ("Ann", True)


def test_the_format_of_alerts_of_a_backtest_is_checked(rules: Path, tmp_path: Path) -> None:
    same = ("backtest", str(rules), "--input", "events.jsonl")
    file = ("--alerts", str(tmp_path / "a"))
    cases: list[tuple[tuple[str, ...], str]] = [
        (("--alert-format", "ecs"), "--alert-format is for --alerts"),
        ((*file, "--alert-format", "leef"), "is ecs or ocsf, not leef"),
    ]
    for words, message in cases:
        done = CliRunner().invoke(app.typer(), (*same, *words))
        assert isinstance(done.exception, WrongUseError)
        assert message in str(done.exception)


def test_a_field_that_is_a_number_here_and_a_text_there_is_text(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "b.cq").write_text("SELECT ts, name, list FROM s WHERE name = '7'")
    rows: list[dict[str, Any]] = [{"name": 7}, {"name": "x"}, {"name": "7"}, {"name": None}, {}]
    rows += [{"name": 7.5}, {"name": True}, {"name": "7", "list": [1]}, {"list": "é"}]
    stamped = [{"ts": f"2026-01-31T10:{n:02d}:00Z", **row} for n, row in enumerate(rows)]
    events, alerts = tmp_path / "events.jsonl", tmp_path / "alerts.jsonl"
    events.write_text("\n".join(map(json.dumps, stamped)) + "\n")
    _run("detect", str(tmp_path / "rules"), "--input", str(events), "-o", str(alerts))
    found = [alert["cepheid"]["events"][0] for alert in _lines(alerts)]
    assert [one["ts"][14:16] for one in found] == ["00", "02", "07"]
    assert found[-1]["list"] == "[1]"
    for broken in ('{"ts": 1}\n{"ts": "a"}\n{', '{"ts": 1}\n{"ts": "a"}\n5'):
        events.write_text(broken)
        with pytest.raises(DataError, match="could not read"):
            list(read_all([events]))


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
    technique = {"technique": {"uid": "T1059"}, "sub_technique": {"uid": "T1059.001"}}
    assert first[0]["finding_info"]["attacks"] == [technique, {"tactic": {"uid": "TA0002"}}]
    assert [one["message"] for one in second] == [one["message"] for one in first]


def test_a_rule_that_does_not_fit_is_refused_alone(rules: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    (rules / "wrong.cq").write_text("SELECT * FROM log WHERE pid LIKE 'a%'")
    done = _run("detect", str(rules), "--input", str(events), *COLUMNS, code=1)
    assert "1 of 3 rules is refused: wrong" in done.output
    assert "2 alerts" in done.output
    words = ("detect", str(rules), "--input", str(events), "--type", "event.category")
    timeless = _run(*words, code=1).exception
    assert isinstance(timeless, DataError)
    assert "no time column `ts`" in str(timeless)
    assert "--time @timestamp" in str(timeless)


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


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_live_stream_gives_the_alerts_of_a_batch(
    spark: SparkSession, rules: Path, tmp_path: Path
) -> None:
    folder, alerts = tmp_path / "events", tmp_path / "alerts.jsonl"
    folder.mkdir()
    later = {"@timestamp": "2026-01-31T11:00:00Z", "event": {"category": "x"}, "pid": 9}
    for number, events in enumerate((EVENTS[:2], [EVENTS[2], later])):
        lines = "\n".join(map(json.dumps, events))
        (folder / f"{number}.jsonl").write_text(lines)
    _run("detect", str(rules), "--input", str(folder), "-o", str(alerts), *COLUMNS)
    live = ("--stream", "--once", "--checkpoint", tmp_path / "state", "-o", tmp_path / "live")
    run_in(spark, "detect", rules, "--input", folder, *live, *COLUMNS)
    written = [one for file in (tmp_path / "live").glob("*.txt") for one in _lines(file)]
    assert sorted(written, key=lambda one: one["@timestamp"]) == _lines(alerts)
    assert len(written) == 2
    # A rule that comes later may name another field that no event has.
    (rules / "more.cq").write_text("SELECT * FROM log WHERE nowhere IS NULL AND pid = 7")
    times = ("2026-01-31T11:30:00Z", "2026-01-31T11:40:00Z")
    more = [{"@timestamp": one, "event": {"category": "x"}, "pid": 7} for one in times]
    (folder / "2.jsonl").write_text("\n".join(map(json.dumps, more)))
    run_in(spark, "detect", rules, "--input", folder, *live, *COLUMNS)
    written = [one for file in (tmp_path / "live").glob("*.txt") for one in _lines(file)]
    assert [one["message"] for one in written].count("more") == 1
    printed = run_in(
        spark, "detect", rules, "--input", folder, "--stream", "--once", "--format", "ocsf",
        "--checkpoint", tmp_path / "other", *COLUMNS,
    )  # fmt: skip
    assert {json.loads(line)["class_uid"] for line in printed.splitlines()} == {2004}


def test_a_live_stream_has_the_libraries_of_spark() -> None:
    words = ["cepheid", "detect", "rules", "--input", "events"]
    assert [cli._needs_pandas([*words, *more]) for more in ([], ["--stream"])] == [False, True]


def test_options_of_streams_need_one(rules: Path, tmp_path: Path) -> None:
    words = ("detect", rules, "--input", tmp_path)
    assert "a --checkpoint" in run(*words, "--stream").stderr
    assert "--once has no effect here" in run(*words, "--once").stderr
    places = ("--source", tmp_path, "--sink", "webhook:http://x/", "--checkpoint", "c")
    done = run("stream", "--rules", rules, "--alerts", "ecs", *places)
    assert "alerts of ECS and OCSF go to a folder" in done.stderr
    done = run("stream", "--rules", rules, "--alerts", "xml", *places)
    assert "--alerts is one of ecs, ocsf" in done.stderr
    assert done.returncode == 2


def test_files_of_different_columns_are_read_one_by_one(
    rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, alerts = tmp_path / "events", tmp_path / "alerts.jsonl"
    folder.mkdir()
    for number, event in enumerate(EVENTS):
        (folder / f"{number}.jsonl").write_text(json.dumps({**event, f"only{number}": number}))
    words = ("detect", str(rules), "--input", str(folder), "-o", str(alerts), *COLUMNS)
    _run(*words)
    whole = _lines(alerts)
    monkeypatch.setattr("cepheid.interfaces.detect.WHOLE_BYTES_MAX", 0)
    _run(*words)
    assert _lines(alerts) == whole
    assert len(whole) == 2


def test_a_log_of_windows_has_the_fields_of_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(number: int, **data: Any) -> dict[str, Any]:
        time = f"2026-01-31T10:00:0{number}.1234567Z"
        system = {
            "EventID": 4625 if number else {"#text": "4624", "#attributes": {"Qualifiers": 0}},
            "EventRecordID": number,
            "Channel": "Security",
            "Provider": {"#attributes": {"Name": "Auditing"}},
            "TimeCreated": {"#attributes": {"SystemTime": time}},
        }
        return {"data": json.dumps({"Event": {"System": system, "EventData": data or None}})}

    class Parser:
        def __init__(self, path: str) -> None:
            assert path.endswith("log.evtx")

        def records_json(self) -> list[dict[str, Any]]:
            listed = ["a", {"#text": "b"}]
            return [record(0), record(1, LogonType=3, Keys=listed), record(2, LogonType=True)]

    monkeypatch.setitem(sys.modules, "evtx", SimpleNamespace(PyEvtxParser=Parser))
    (tmp_path / "log.evtx").touch()
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.cq").write_text("SELECT * FROM w WHERE EventID = 4625")
    words = ("--input", str(tmp_path / "log.evtx"), "--type", "Channel")
    lines = _run("detect", str(tmp_path / "rules"), *words).stdout.splitlines()
    first, second = (json.loads(line)["cepheid"]["events"][0] for line in lines[:2])
    assert first["LogonType"] == "3"
    assert first["Keys"] == "a\nb"
    assert first["ts"] == "2026-01-31T10:00:01.123456Z"
    assert (second["LogonType"], second["Provider_Name"]) == ("true", "Auditing")


def test_what_is_no_log_of_windows_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("evtx")
    (tmp_path / "log.evtx").write_text("no log")
    with pytest.raises(DataError, match="E501"):
        read_windows_log(tmp_path / "log.evtx")
