"""``cepheid stream --rules``: rules that change while the stream goes on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from tests.interfaces.program import run, run_in
from tests.interfaces.test_stream_command import two_files, write

import cepheid
from cepheid.errors import CepheidError, DataError
from cepheid.expressions import own
from cepheid.interfaces import stream_rules
from cepheid.interfaces.rule_queries import EventColumns, RuleQuery, ready_rules
from cepheid.interfaces.rules import stamp_of
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_rules import Fitted, Rulebook, Source, stream_rules_in
from cepheid.kinds.workload.rule_places import Freedom
from cepheid.kinds.workload.rule_records import Put, Timing
from cepheid.runtimes.rules_log import RulesLog

WINDOW = "WITHIN 4 s SLIDE 4 s"
COUNTS = f"RETURN user, COUNT(*) PATTERN A GROUP-BY user {WINDOW}"
TRENDS = f"RETURN user, COUNT(*) PATTERN A+ GROUP-BY user {WINDOW}"


def rulebook(folder: Path, complaints: list[str]) -> Rulebook:
    source = Source(lambda: ready_rules(folder, EventColumns()), lambda: stamp_of(folder))
    return Rulebook(source, complaints.append)


def rules_in(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in texts.items():
        (folder / f"{name}.cq").write_text(text)
    return folder


def fit(one: RuleQuery) -> Fitted:
    """Plan a rule for events with a user."""
    columns = {"ts": "timestamp", "type": "string", "user": "string"}
    plan = one.compiled.with_schema(columns).plan
    name = one.variant.name
    about = ("", (), "", None, None, Timing(), ())
    put = Put(name, one.rule.name, None, 0, *about, plan.to_json().decode())
    return Fitted(put, Freedom(frozenset({"user"}), ("user",)))


def texts_of(book: Rulebook) -> dict[str, str]:
    return {name: one.put.planned.text for name, one in book.rules.items()}


def test_rules_that_cannot_be_read_are_told_once_and_the_others_go_on(tmp_path: Path) -> None:
    complaints: list[str] = []
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    book = rulebook(folder, complaints)
    book.fit(fit)
    assert not book.changed(fit)
    rules_in(folder, counts=COUNTS, wrong="RETURN")
    assert not book.changed(fit)
    assert not book.changed(fit)
    assert len(complaints) == 1
    assert "--> wrong:" in complaints[0]
    assert "the rule `wrong` is refused: the other rules go on" in complaints[0]
    (folder / "wrong.cq").unlink()
    # An editor's lock, and a rule that goes while it is read.
    (folder / ".#counts.cq").symlink_to("nowhere")
    assert not book.changed(fit)
    (folder / "gone.cq").symlink_to("nowhere")
    assert not book.changed(fit)
    assert len(complaints) == 2
    assert "could not read" in complaints[1]
    rules_in(folder, counts=COUNTS, trends=TRENDS)
    assert book.changed(fit)
    assert list(book.rules) == ["counts", "trends"]
    assert not book.changed(fit)
    # A mistake in a rule that runs, beside a change of another one.
    named = COUNTS.replace("user,", "user, user AS u,")
    rules_in(folder, counts=named, trends="RETURN")
    assert book.changed(fit)
    assert "the rule `trends` is refused: its version before goes on" in complaints[2]
    assert texts_of(book) == {"counts": named, "trends": TRENDS}
    assert book.refused == {"wrong": 1, "gone": 1, "trends": 1}
    for file in folder.iterdir():
        file.unlink()
    assert not book.changed(fit)
    assert "the rules before go on" in complaints[3]


def test_a_rule_that_does_not_fit_the_events_is_refused_alone(tmp_path: Path) -> None:
    complaints: list[str] = []
    other = COUNTS.replace("user", "nobody")
    folder = rules_in(tmp_path / "rules", counts=COUNTS, other=other)
    book = rulebook(folder, complaints)
    book.fit(fit)
    assert list(book.rules) == ["counts"]
    assert len(complaints) == 1
    assert "--> other:" in complaints[0]
    assert "error[E201]" in complaints[0]
    rules_in(folder, counts=other, other=TRENDS)
    assert book.changed(fit)
    assert texts_of(book) == {"counts": COUNTS, "other": TRENDS}
    assert "the rule `counts` is refused: its version before goes on" in complaints[1]
    none = rulebook(rules_in(tmp_path / "none", other=other), [])
    with pytest.raises(CepheidError, match="E201"):
        none.fit(fit)


def test_a_rule_that_is_refused_at_a_restart_goes_on_as_the_log_has_it(tmp_path: Path) -> None:
    folder = rules_in(tmp_path / "rules", counts=COUNTS, trends=TRENDS)
    log = RulesLog(tmp_path)
    log.begin((("user",), ()))
    book = rulebook(folder, [])
    told = stream_rules.Teller(lambda _: None)
    log.change(stream_rules.placed_at((("user",), ()), book.fit(fit), told))
    rules_in(folder, counts="RETURN", trends=TRENDS)
    complaints: list[str] = []
    again, log = rulebook(folder, complaints), RulesLog(tmp_path)
    again.go_on(log)
    again.fit(fit)
    assert texts_of(again) == {"counts": COUNTS, "trends": TRENDS}
    assert "its version before goes on" in complaints[0]
    assert log.change(stream_rules.placed_at((("user",), ()), again.rules, told)) == []


def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()
    (tmp_path / "cepheid-rules.jsonl").touch()
    with pytest.raises(DataError) as caught:
        RulesLog(tmp_path)
    assert caught.value.diagnostics[0].code == "E524"
    assert "earlier version" in str(caught.value)
    assert "--restart-from earliest" in str(caught.value)


def test_the_keys_of_a_stream_stay_and_rules_with_others_run_in_one_task(tmp_path: Path) -> None:
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    rules = rulebook(folder, []).fit(fit)
    options = Options("events", "-", tmp_path, "1 second")
    assert stream_rules._keys(RulesLog(tmp_path), options, rules) == (("user",), ())
    same = Options("events", "-", tmp_path, "1 second", keys=("user",))
    assert stream_rules._keys(RulesLog(tmp_path), same, rules) == (("user",), ())
    other = Options("events", "-", tmp_path, "1 second", keys=("zone,host", "zone"))
    with pytest.raises(DataError, match=r"E524.*other keys: user"):
        stream_rules._keys(RulesLog(tmp_path), other, rules)
    named = RulesLog(tmp_path / "named")
    keys = stream_rules._keys(named, other, rules)
    assert keys == (("host", "zone"), ("zone",), ())
    stream_rules.check_keys(other, ["host", "zone"])
    with pytest.raises(CepheidError, match=r"E590.*--keys names `host`"):
        stream_rules.check_keys(other, ["zone", "hosts"])
    complaints: list[str] = []
    teller = stream_rules.Teller(complaints.append)
    for _ in range(2):
        placed = stream_rules.placed_at(keys, rules, teller)
        assert placed["counts"].place == 2
    assert len(complaints) == 1
    assert "the rule `counts` runs in one task" in complaints[0]


# ---------------------------------------------------------------------------------------
# On Spark


def alerts(spark: SparkSession, sink: Path) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in spark.read.parquet(str(sink)).collect()]
    return sorted(rows, key=lambda row: (row["rule"], row["at"], row["values"]))


def options_of(tmp_path: Path, **more: Any) -> Options:
    folder = rules_in(tmp_path / "none", counts=COUNTS)
    times = ready_rules(folder, EventColumns()).workload.times
    source, sink = tmp_path / "events", tmp_path / "rows"
    given: dict[str, Any] = {"once": True, "times": times} | more
    return Options(str(source), str(sink), tmp_path / "state", "1 second", **given)


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rules_go_on_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    source = two_files(tmp_path / "events")
    about = "-- @owner: desk\n-- @tags: a, b\n-- @severity: high\n"
    folder = rules_in(tmp_path / "rules", counts=about + COUNTS)
    options = options_of(tmp_path)
    stream_rules_in(spark, rulebook(folder, []), options, print)
    changed = about.replace("high", "low") + COUNTS
    rules_in(folder, counts=changed, trends=TRENDS)
    write(source, 3, [6, 20])
    stream_rules_in(spark, rulebook(folder, []), options, print)
    rows = alerts(spark, tmp_path / "rows")
    found = [(row["rule"], row["version"], json.loads(row["values"])["count"]) for row in rows]
    # Two events wait for the watermark when the second rule comes, at 5 s and at 6 s. With the
    # third, of the same time as the second, there are five trends.
    assert found == [("counts", 1, 2), ("counts", 2, 3), ("trends", 1, 5)]
    first = rows[0]
    assert (first["owner"], first["tags"], first["severity"]) == ("desk", "a,b", "high")
    assert rows[1]["severity"] == "low"
    assert json.loads(first["key"]) == {"user": "ann"}
    assert first["at"] == first["window_end"]
    assert list(first) == [
        "rule", "variant", "version", "owner", "tags", "severity", "at", "window_start",
        "window_end", "key", "values",
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rules_that_come_later_call_functions(spark: SparkSession, tmp_path: Path) -> None:
    cepheid.function("rule_upper", pc.utf8_upper, returns="string")
    try:
        source = two_files(tmp_path / "events")
        folder = rules_in(tmp_path / "rules", counts=COUNTS)
        stream_rules_in(spark, rulebook(folder, []), options_of(tmp_path), print)
        where = "WHERE rule_upper(A.user) = 'ANN' GROUP-BY"
        called = TRENDS.replace("GROUP-BY", where)
        rules_in(folder, counts=COUNTS, trends=called)
        write(source, 3, [6, 20])
        stream_rules_in(spark, rulebook(folder, []), options_of(tmp_path), print)
    finally:
        own.forget("RULE_UPPER")
    rows = alerts(spark, tmp_path / "rows")
    found = [(row["rule"], json.loads(row["values"])["count"]) for row in rows]
    assert found == [("counts", 2), ("counts", 3), ("trends", 5)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens at each look at the rules, while a stream runs."""
    todo: list[Any] = []
    before = Rulebook.changed

    def changed(book: Rulebook, fit: Any) -> bool:
        if todo:
            todo.pop(0)()
        return before(book, fit)

    monkeypatch.setattr(Rulebook, "changed", changed)
    return todo


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rules_change_while_the_stream_runs(
    spark: SparkSession, tmp_path: Path, steps: list[Any]
) -> None:
    source = two_files(tmp_path / "events")
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    options = options_of(tmp_path, once=False, every="0 seconds")
    complaints: list[str] = []

    def until(done: Any) -> Any:
        def wait() -> None:
            end = time.monotonic() + 60
            while not done() and time.monotonic() < end:
                time.sleep(0.05)

        return wait

    def committed(count: int) -> Any:
        commits = tmp_path / "state" / "commits"
        return until(lambda: sum(f.name.isdigit() for f in commits.glob("*")) >= count)

    situations = "DEFINE SEEN AS user = 'ann' SITUATIONS SEEN RETURN COUNT(SEEN) AS n"
    selected = "SELECT ts, user FROM s WHERE user = 'ann'"
    wrong = COUNTS.replace("user", "nobody")
    steps += [
        committed(1),
        lambda: rules_in(folder, counts=COUNTS, trends=TRENDS, listed=selected, other=wrong),
        committed(2),
        lambda: write(source, 3, [6, 20]),
        committed(3),
        lambda: rules_in(folder, trends=TRENDS, runs=situations),
        committed(4),
        lambda: write(source, 4, [21, 30, 40]),
        committed(5),
        # A micro-batch that finds no new file yet is committed, too.
        until(lambda: sum(r["rule"] == "trends" for r in alerts(spark, tmp_path / "rows")) >= 3),
        lambda: spark.streams.active[0].stop(),
    ]
    stream_rules_in(spark, rulebook(folder, complaints), options, complaints.append)
    rows = alerts(spark, tmp_path / "rows")
    found = [(row["rule"], json.loads(row["values"])) for row in rows]
    counts = [(rule, own["count"]) for rule, own in found if rule in ("counts", "trends")]
    assert counts == [("counts", 2), ("counts", 3), ("trends", 5), ("trends", 3), ("trends", 1)]
    assert sum(rule == "listed" for rule, _ in found) == 3
    assert all(row["key"] is None for row in rows if row["rule"] == "listed")
    assert any("the rule `other` is refused" in text for text in complaints)
    assert len(spark.streams.active) == 0


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_limits_suppress_alerts_and_tell_how_many(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    write(folder, 1, list(range(0, 40, 2)))
    write(folder, 2, [60])
    once = "-- @deduplicate: user within 9 seconds\n" + COUNTS
    rules = rules_in(tmp_path / "rules", counts=once)
    complaints: list[str] = []
    stream_rules_in(spark, rulebook(rules, []), options_of(tmp_path), complaints.append)
    rows = alerts(spark, tmp_path / "rows")
    # Windows end at 4, 8, 12, ... 40 s, and alerts leave at 4, 16, 28 and 40 s.
    assert [row["at"].second for row in rows] == [4, 16, 28, 40]
    assert complaints == ["notice: 6 alerts of `counts` were suppressed: 6 duplicate"]


@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.slow
def test_rules_run_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    source = two_files(tmp_path / "events")
    folder = rules_in(tmp_path / "rules", counts=COUNTS, trends=TRENDS)
    options = ("--rules", folder, "--input", source, "--format", "csv")
    local = run("run", *options, timeout=200)
    found = run_in(spark, "run", *options, "--engine", "spark")
    assert found == local.stdout
    assert found.count("\n") == 5


def test_a_bad_rule_is_said_before_spark_starts(tmp_path: Path) -> None:
    folder = rules_in(tmp_path / "rules", wrong="RETURN")
    places = ("--source", tmp_path, "--sink", "-", "--checkpoint", tmp_path / "state")
    done = run("stream", "--rules", folder, *places)
    assert done.returncode == 1
    assert "--> wrong:" in done.stderr
    missing = run("stream", *places)
    assert missing.returncode == 2
    assert "name a query file" in missing.stderr
    with pytest.raises(DataError):
        rulebook(rules_in(tmp_path / "none"), [])
