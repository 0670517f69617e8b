"""Rules read the logs that they name: each its own input, or several logs as one stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.interfaces.program import run, run_in
from typer.testing import CliRunner

from cepheid.interfaces.cli import app
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.logs import inputs_of

DNS = [
    {"ts": "2026-01-31T10:00:00Z", "user": "ann", "query": "a.example", "size": 12},
    {"ts": "2026-01-31T10:00:30Z", "user": "bob", "query": "b.example", "size": 3},
]
SSH = [
    {"ts": "2026-01-31T10:00:20Z", "user": "ann", "host": "db", "size": 12},
    {"ts": "2026-01-31T10:05:00Z", "user": "bob", "host": "db", "size": 1},
]
LATER = "2026-01-31T12:00:00Z"
RULES = {
    "big": "SELECT * FROM dns WHERE size > 9",
    "login": "SELECT user, host FROM ssh WHERE host = 'db'",
    "both": """
        CREATE STREAM Asked AS SELECT user FROM dns WHERE query LIKE '%.example';
        CREATE STREAM Came AS SELECT user FROM ssh;
        RETURN user, COUNT(*) AS found PATTERN SEQ(Asked a, Came c) GROUP-BY user WITHIN 1 minute
    """,
    "pairs": """
        SELECT d.query, s.host FROM dns d JOIN ssh s ON d.user = s.user WINDOW 1 minute
    """,
    "rows": """
        SELECT * FROM ssh MATCH_RECOGNIZE (
            PARTITION BY user ORDER BY ts MEASURES A.host AS place PATTERN (A) DEFINE A AS size > 9)
    """,
}
EXPECTED = [
    ("big", "ann"),
    ("both", "ann"),
    ("login", "ann"),
    ("login", "bob"),
    ("pairs", "a.example"),
    ("rows", "ann"),
]


def _detect(*words: object, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    done = CliRunner().invoke(app.typer(), ["detect", *map(str, words)])
    assert done.exit_code == code, (done.output, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _found(alerts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    rows = [(one["message"], one["cepheid"]["events"][0]) for one in alerts]
    return sorted((rule, row.get("user") or row["query"]) for rule, row in rows)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    for name, text in RULES.items():
        (folder / f"{name}.cq").write_text(text)
    return folder


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Write a folder with a folder for each log."""
    folder = tmp_path / "logs"
    for name, events in (("dns", DNS), ("ssh", SSH)):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.jsonl").write_text("\n".join(map(json.dumps, events)))
    return folder


def test_each_rule_reads_the_logs_that_it_names(rules: Path, logs: Path) -> None:
    alerts, told = _detect(rules, "--logs", logs)
    assert _found(alerts) == EXPECTED
    named = ("--input", f"dns={logs}/dns/*.jsonl", "--input", f"ssh={logs}/ssh/1.jsonl")
    assert _detect(rules, *named)[0] == alerts
    assert "cepheid_log" not in json.dumps(alerts)
    times = [one["@timestamp"] for one in alerts if one["@timestamp"] is not None]
    assert times == sorted(times)
    assert "NULL" not in told


def test_an_input_without_a_name_is_for_all_other_logs(rules: Path, logs: Path) -> None:
    named = ("--input", f"dns={logs}/dns", "--input", logs / "ssh")
    assert _found(_detect(rules, *named)[0]) == EXPECTED


def test_a_backtest_reads_named_logs_and_has_the_alerts_of_detect(
    rules: Path, logs: Path, tmp_path: Path
) -> None:
    named = ("--input", f"dns={logs}/dns", "--input", f"ssh={logs}/ssh")
    listed = tmp_path / "alerts.jsonl"
    more = ("--format", "json", "--alerts", listed, "--alert-format", "ecs")
    words = ["backtest", *map(str, (rules, *named, *more))]
    done = CliRunner().invoke(app.typer(), words)
    assert done.exit_code == 0, (done.output, done.exception)
    rows = {one["rule"]: one["alerts"] for one in map(json.loads, done.stdout.splitlines())}
    assert rows == {"big": 1, "both": 1, "login": 2, "pairs": 1, "rows": 1}
    found = [json.loads(line) for line in listed.read_text().splitlines()]
    expected, _ = _detect(rules, *named)
    assert sorted(found, key=str) == sorted(expected, key=str)
    for name in ("big", "both", "login", "pairs"):
        (rules / f"{name}.cq").unlink()
    one = ["backtest", str(rules), "--input", f"ssh={logs}/ssh", "--format", "json"]
    assert json.loads(CliRunner().invoke(app.typer(), one).stdout)["alerts"] == 1


def test_a_field_that_one_log_lacks_is_null_there(rules: Path, logs: Path) -> None:
    for one in rules.glob("*.cq"):
        one.unlink()
    (rules / "odd.cq").write_text("SELECT * FROM ssh WHERE query IS NULL AND size > 9")
    alerts, told = _detect(rules, "--logs", logs)
    assert _found(alerts) == [("odd", "ann")]
    assert "no event of ssh has these fields, which are NULL: query" in told


def test_a_rule_of_a_log_without_input_is_refused_alone(rules: Path, logs: Path) -> None:
    alerts, told = _detect(rules, "--input", f"ssh={logs}/ssh", code=1)
    assert {one["message"] for one in alerts} == {"login", "rows"}
    assert "E538" in told
    assert "no input has the log `dns`" in told
    assert "3 of 5 rules are refused: big, both, pairs" in told


def test_rules_of_one_log_that_do_not_fit_leave_those_of_others(rules: Path, logs: Path) -> None:
    (rules / "login.cq").write_text("SELECT AVG(host) AS x FROM ssh WINDOW 1 minute")
    for name in ("both", "pairs", "rows"):
        (rules / f"{name}.cq").unlink()
    alerts, told = _detect(rules, "--logs", logs, code=1)
    assert _found(alerts) == [("big", "ann")]
    assert "1 of 2 rules is refused: login" in told


def test_a_pattern_without_from_reads_all_logs(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "all.cq").write_text("SELECT COUNT(*) AS n FROM dns WINDOW 1 hour")
    (tmp_path / "any.cq").write_text("RETURN COUNT(*) AS n PATTERN ANY a WITHIN 1 hour")
    alerts, _ = _detect(tmp_path, "--logs", logs)
    found = {one["message"]: one["cepheid"]["events"][0]["n"] for one in alerts}
    assert found == {"all": 2, "any": 4.0}


def test_names_of_logs(tmp_path: Path) -> None:
    (tmp_path / "date=2026").mkdir()
    (tmp_path / "7-old.logs.csv").write_text("ts\n1")
    (tmp_path / ".hidden").write_text("")
    assert inputs_of([str(tmp_path / "date=2026")], []) == {"": (str(tmp_path / "date=2026"),)}
    assert set(inputs_of([], [str(tmp_path)])) == {"date_2026", "_7_old_logs"}
    topics = inputs_of(["a=x", "a=y", "z"], ["kafka://host:1/a,b-c"])
    assert topics == {
        "a": ("x", "y", "kafka://host:1/a"), "": ("z",), "b_c": ("kafka://host:1/b-c",)
    }  # fmt: skip
    with pytest.raises(WrongUseError, match="name the events"):
        inputs_of([], [])
    with pytest.raises(WrongUseError, match="--logs names a folder"):
        inputs_of([], ["nowhere"])


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_live_stream_of_several_logs_gives_the_alerts_of_a_batch(
    spark: SparkSession, rules: Path, logs: Path, tmp_path: Path
) -> None:
    for name in ("dns", "ssh"):
        (logs / name / "2.jsonl").write_text(json.dumps({"ts": LATER, "user": name}))
    batch, _ = _detect(rules, "--logs", logs)
    live = ("--stream", "--once", "--checkpoint", tmp_path / "state", "-o", tmp_path / "live")
    run_in(spark, "detect", rules, "--logs", logs, *live)
    files = (tmp_path / "live").glob("*.txt")
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert _found(found) == _found(batch)
    ids = [sorted(one["event"]["id"] for one in alerts) for alerts in (found, batch)]
    assert ids[0] == ids[1]


def test_a_live_log_has_one_source(rules: Path, logs: Path) -> None:
    sources = ("--source", f"ssh={logs}/ssh", "--source", f"ssh={logs}/dns")
    done = run("stream", "--rules", rules, *sources, "--sink", "-", "--checkpoint", "c")
    assert "a live log has one --source, and `ssh` has 2" in done.stderr
    several = ("--input", logs / "ssh", "--input", logs / "dns", "--checkpoint", "c")
    assert "one --input of each log" in run("detect", rules, "--stream", *several).stderr
