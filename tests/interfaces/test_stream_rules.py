"""``cepheid stream --rules``: rules that change while the stream goes on."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interfaces.program import run, run_in
from tests.interfaces.test_stream_command import two_files, write

from cepheid import runtimes
from cepheid.errors import DataError
from cepheid.interfaces import stream_rules
from cepheid.interfaces.rule_queries import EventColumns, ready_rules
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_rules import Rulebook, stream_rules_in
from cepheid.workloads import Workload

WINDOW = "WITHIN 4 s SLIDE 4 s"
COUNTS = f"RETURN user, COUNT(*) PATTERN A GROUP-BY user {WINDOW}"
TRENDS = f"RETURN user, COUNT(*) PATTERN A+ GROUP-BY user {WINDOW}"


def rulebook(folder: Path, complaints: list[str]) -> Rulebook:
    return Rulebook(lambda place: ready_rules(place or folder, EventColumns()), complaints.append)


def rules_in(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in texts.items():
        (folder / f"{name}.cq").write_text(text)
    return folder


def test_limits_that_a_stream_does_not_apply_are_told(tmp_path: Path) -> None:
    complaints: list[str] = []
    limited = f"-- @rate_limit: 2 per 1 hour\n{COUNTS}"
    rulebook(rules_in(tmp_path / "rules", counts=limited, trends=TRENDS), complaints)
    assert complaints == ["notice: a stream does not limit alerts yet; all rows leave of: counts"]


def test_rules_that_cannot_be_read_are_told_once_and_the_others_go_on(tmp_path: Path) -> None:
    complaints: list[str] = []
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    book = rulebook(folder, complaints)
    tried: list[Workload] = []
    assert not book.changed(tried.append)
    rules_in(folder, counts=COUNTS, wrong="RETURN")
    assert not book.changed(tried.append)
    assert not book.changed(tried.append)
    assert len(complaints) == 1
    assert "--> wrong:" in complaints[0]
    assert "the rule `wrong` is refused: the other rules go on" in complaints[0]
    (folder / "wrong.cq").unlink()
    # An editor's lock, and a rule that goes while it is read.
    (folder / ".#counts.cq").symlink_to("nowhere")
    assert not book.changed(tried.append)
    (folder / "gone.cq").symlink_to("nowhere")
    assert not book.changed(tried.append)
    assert len(complaints) == 2
    assert "could not read" in complaints[1]
    rules_in(folder, counts=COUNTS, trends=TRENDS)
    assert book.changed(tried.append)
    assert book.rules.names == tried[0].names == ("counts", "trends")
    assert not book.changed(tried.append)
    # A mistake in a rule that runs, beside a change of another one.
    rules_in(folder, counts=COUNTS.replace("user", "name"), trends="RETURN")
    assert book.changed(tried.append)
    assert "the rule `trends` is refused: its version before goes on" in complaints[2]
    assert {name: book.rules[name].text for name in book.rules.names} == {
        "counts": COUNTS.replace("user", "name"),
        "trends": TRENDS,
    }
    for file in folder.iterdir():
        file.unlink()
    assert not book.changed(tried.append)
    assert "the rules before go on" in complaints[3]


def test_a_rule_that_does_not_fit_the_events_is_refused_alone(tmp_path: Path) -> None:
    complaints: list[str] = []
    other = COUNTS.replace("user", "nobody")
    folder = rules_in(tmp_path / "rules", counts=COUNTS, other=other)
    book = rulebook(folder, complaints)
    tried: list[Workload] = []

    def try_out(rules: Workload) -> None:
        tried.append(rules)
        rules.shared({"ts": "timestamp", "type": "string", "user": "string"})

    book.fit(try_out)
    assert book.rules.names == ("counts",)
    assert len(complaints) == 1
    assert "--> other:" in complaints[0]
    assert "error[E201]" in complaints[0]
    assert len(tried) == 2
    # It is not tried again before it changes.
    assert not book.changed(try_out)
    assert len(tried) == 2
    rules_in(folder, counts=other, other=TRENDS)
    assert book.changed(try_out)
    assert book.rules["counts"].text == COUNTS
    assert book.rules["other"].text == TRENDS
    assert "the rule `counts` is refused: its version before goes on" in complaints[1]


def test_a_change_stops_the_query_and_starts_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    happened: list[str] = []
    seconds = iter(["", "change", "", "end"])

    class Live:
        def awaitTermination(self, _seconds: float = 0) -> bool:  # noqa: N802  # Spark's name
            now = next(seconds)
            if now == "change":
                rules_in(folder, counts=COUNTS, trends=TRENDS)
            return now == "end"

        lastProgress = None  # noqa: N815  # Spark's name

        def stop(self) -> None:
            happened.append("stop")

    class Output:
        def __init__(self, names: tuple[str, ...]) -> None:
            self.names = " ".join(names)

        def finish(self) -> None:
            pass

    def started(output: Output, *_: object, single: bool = False) -> Live:
        happened.append(f"{'finish' if single else 'start'} {output.names}")
        return Live()

    def streamed(rules: Workload, _events: object, _asked: object) -> Output:
        return Output(rules.names)

    monkeypatch.setattr(stream_rules, "with_double_counts", lambda *_: None)
    monkeypatch.setattr(stream_rules, "begun", lambda *_: nullcontext())
    monkeypatch.setattr(stream_rules, "start", started)
    monkeypatch.setattr(stream_rules, "source_of", lambda *_: None)
    monkeypatch.setattr(runtimes, "stream_workload", streamed)
    options = Options("events", "-", tmp_path / "state", "1 second")
    stream_rules_in(None, rulebook(folder, []), options)  # type: ignore[arg-type]  # no Spark
    assert happened == ["start counts", "stop", "start counts trends"]
    # A micro-batch that was planned and not committed belongs to the rules that began it.
    (tmp_path / "state" / "offsets").mkdir()
    (tmp_path / "state" / "offsets" / "3").touch()
    rules_in(folder, trends=TRENDS)
    happened.clear()
    seconds = iter(["end", "end"])
    stream_rules_in(None, rulebook(folder, []), options)  # type: ignore[arg-type]  # no Spark
    assert happened == ["finish counts trends", "start trends"]


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rules_go_on_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    source = two_files(tmp_path / "events")
    folder = rules_in(tmp_path / "rules", counts=COUNTS)
    sink = tmp_path / "rows"
    options = Options(str(source), str(sink), tmp_path / "state", "1 second", once=True)
    stream_rules_in(spark, rulebook(folder, []), options)
    rules_in(folder, counts=COUNTS, trends=TRENDS)
    write(source, 3, [6, 20])
    stream_rules_in(spark, rulebook(folder, []), options)
    found = [(row["query"], row["count"]) for row in spark.read.parquet(str(sink)).collect()]
    # Two events wait for the watermark when the second rule comes, at 5 s and at 6 s. With the
    # third, of the same time as the second, there are five trends.
    assert sorted(found) == [("counts", 2.0), ("counts", 3.0), ("trends", 5.0)]


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
