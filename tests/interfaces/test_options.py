"""Every option of every command is used or refused, with code 2, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from pyarrow import parquet
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cepheid import options
from cepheid.interfaces.cli import app
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.spark import session as spark_session

QUERY = "RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 5 s"
EVENTS = pa.table({"ts": pa.array([1], pa.timestamp("us")), "type": ["A"]})
RUN = ("run", "query.cq", "--input", "events.parquet")
WHY = ("why", "query.cq", "--input", "events.parquet")
STREAM = ("stream", "query.cq", "--source", "events", "--sink", "rows", "--checkpoint", "state")
RATE = ("stream", "query.cq", "--source", "rate:1", "--sink", "rows", "--checkpoint", "state")
DISCOVER = ("discover", "events.parquet", "--key", "k")
BACKTEST = ("backtest", "rules", "--input", "events.parquet")
DETECT = ("detect", "rules", "--input", "events.parquet")
TRANSLATE = ("translate", "rules")
STORED = ("store", "query", "store", "query.cq")

REFUSED: list[tuple[str, ...]] = [
    (*RUN, "--output", "o.xlsx"),
    (*RUN, "--output", "o"),
    (*RUN, "--chart", "o.xlsx"),
    (*RUN, "--timeline", "o.xlsx"),
    ("mcp", "nonsense"),
    ("mcp", "events", "--rows", "0"),
    ("mcp", "events", "--bytes", "0"),
    ("mcp", "events", "--seconds", "0"),
    ("mcp", "events", "--time-unit", "nonsense"),
    ("mcp", "events", "--time-format", "nonsense"),
    ("serve", "nonsense"),
    ("serve", "kafka://host:9092"),
    ("serve", "events", "--port", "-1"),
    ("serve", "events", "--port", "65536"),
    ("serve", "events", "--rows", "0"),
    ("serve", "events", "--seconds", "0"),
    ("serve", "events", "--time-unit", "nonsense"),
    ("serve", "events", "--time-format", "nonsense"),
    ("serve", "events", "--columns", "ts timestamp"),
    ("serve", "kafka://host:9092/topic", "--columns", "nonsense"),
    ("serve", "events", "--kafka", "security.protocol=SSL"),
    ("serve", "kafka://host:9092/topic", "--kafka", "nonsense"),
    (*RUN, "--output", "o.csv", "--format", "table"),
    (*RUN, "--format", "nonsense"),
    (*RUN, "--engine", "nonsense"),
    (*RUN, "--master", "local[1]"),
    (*RUN, "--time-unit", "nonsense"),
    (*RUN, "--time-format", "nonsense"),
    (*RUN, "--input", "other.parquet"),
    (*RUN, "--rules", "rules"),
    (*RUN, "--query", "RETURN COUNT(*) PATTERN A"),
    (*RUN, "--id", "trade"),
    ("run", "--rules", "rules", "--input", "events.parquet", "--changes", "op"),
    (*RUN, "--input-format", "csv"),
    ("run", "query.cq", "--input", "-", "--input-format", "nonsense"),
    ("run", "-", "--input", "-"),
    ("run", "join.cq", "--input", "a=-", "--input", "b=-"),
    ("run", "--rules", "rules", "--query", "RETURN COUNT(*) PATTERN A", "--input", "a.parquet"),
    ("explain", "E305", "--changes"),
    ("explain", "query.cq", "--changes", "--analyze", "--input", "events.parquet"),
    ("explain", "--rules", "rules", "--query", "RETURN COUNT(*) PATTERN A"),
    ("check", "--rules", "rules", "--query", "RETURN COUNT(*) PATTERN A"),
    ("explain", "query.cq", "--query", "RETURN COUNT(*) PATTERN A"),
    ("run", "--input", "a.parquet", "--input", "b.parquet", "--rules", "rules"),
    ("run", "--input", "a.parquet", "--rules", "nonsense"),
    ("run", "join.cq", "--input", "a=events.parquet", "--input", "events.parquet"),
    ("run", "join.cq", "--input", "a=e.parquet", "--input", "b=e.parquet", "--input", "c=x"),
    ("run", "join.cq", "--input", "a=e.parquet", "--input", "a=e.parquet"),
    ("run", "nonsense.cq", "--input", "events.parquet"),
    ("explain", "query.cq", "--format", "nonsense"),
    ("explain", "query.cq", "--engine", "nonsense"),
    ("explain", "query.cq", "--engine", "spark", "--format", "json"),
    ("explain", "query.cq", "--schema", "nonsense"),
    ("explain", "--rules", "rules", "--format", "json"),
    ("explain", "--rules", "rules", "--engine", "gpu"),
    ("explain", "E305", "--format", "json"),
    ("explain", "E305", "--engine", "gpu"),
    ("explain", "E305", "--schema", "events.parquet"),
    ("explain", "E999"),
    ("check", "query.cq", "--schema", "nonsense"),
    ("check", "query.cq", "--input", "events.parquet", "--schema", "events.parquet"),
    ("check", "query.cq", "--query", "RETURN COUNT(*) PATTERN A"),
    ("check", "query.cq", "--time-unit", "nonsense"),
    ("check", "query.cq", "--time-format", "nonsense"),
    (*WHY, "--format", "nonsense"),
    (*WHY, "--engine", "nonsense"),
    (*WHY, "--master", "local[1]"),
    (*WHY, "--time-unit", "nonsense"),
    (*WHY, "--time-format", "nonsense"),
    (*WHY, "--query", "RETURN COUNT(*) PATTERN A"),
    (*WHY, "--input-format", "csv"),
    ("explain", "query.cq", "--analyze"),
    ("explain", "query.cq", "--input", "events.parquet", "--input-format", "csv", "--analyze"),
    ("explain", "query.cq", "--input", "events.parquet", "--master", "local[1]", "--analyze"),
    ("explain", "query.cq", "--time-unit", "nonsense"),
    ("explain", "query.cq", "--time-format", "nonsense"),
    ("fmt", "query.cq", "--write", "--check"),
    (*STREAM, "--query", "RETURN COUNT(*) PATTERN A"),
    (*STREAM, "--format", "nonsense"),
    (*STREAM, "--buckets", "0"),
    (*STREAM, "--keys", "user"),
    (*STREAM, "--alerts", "ecs"),
    (*STREAM, "--marks"),
    (*STREAM, "--hot-keys"),
    (*STREAM, "--shed", "1 second"),
    (*STREAM, "--latency", "1 second", "--once"),
    (*STREAM, "--bad", "nonsense"),
    (*STREAM, "--late", "nonsense"),
    (*STREAM, "--late", "correct"),
    (*STREAM, "--allowed-lateness", "1 hour"),
    (*STREAM, "--files", "0"),
    (*STREAM, "--every", "1 second", "--once"),
    (*STREAM, "--idle", "1 second", "--once"),
    (*STREAM, "--id", "trade"),
    (*STREAM, "--changes", "op", "--late", "side"),
    (*STREAM, "--time-unit", "nonsense"),
    (*STREAM, "--time-format", "nonsense"),
    (*STREAM, "--source", "other"),
    (*STREAM, "--rules", "rules"),
    (*STREAM, "--sink", "kafka://host:9092"),
    (*STREAM, "--values", "json"),
    (*STREAM, "--schema", "events.avsc"),
    (*STREAM, "--registry", "http://host"),
    (*STREAM, "--message", "Event"),
    (*STREAM, "--start", "earliest"),
    (*STREAM, "--rows", "10"),
    (*STREAM, "--keep", "key"),
    (*STREAM, "--on-loss", "skip"),
    (*STREAM, "--kafka", "a=b"),
    (*STREAM, "--key", "user"),
    (*STREAM, "--dead-letters", "letters"),
    (*STREAM, "--metrics", "-1"),
    (*STREAM, "--restart-from", "nonsense"),
    (*STREAM, "--backfill", "nonsense"),
    (*RATE, "--files", "1"),
    (*RATE, "--format", "csv"),
    (*RATE, "--columns", "ts timestamp"),
    (*STORED, "--method", "nonsense"),
    (*STORED, "--format", "nonsense"),
    (*STORED, "--output", "o.xlsx"),
    (*STORED, "--explain", "--method", "replay"),
    (*STORED, "--explain", "--output", "o.csv"),
    (*STORED, "--explain", "--format", "csv"),
    ("discover", "events.parquet", "--key", ""),
    (*DISCOVER, "--store", "store"),
    ("discover", "--store", "store", "--key", "k", "--time", "at"),
    ("discover", "--store", "store", "--key", "k", "--time-unit", "s"),
    ("discover", "--store", "store", "--key", "k", "--time-format", "%Y"),
    (*DISCOVER, "--time-unit", "weeks"),
    (*DISCOVER, "--rules", "rules"),
    (*DISCOVER, "--input-format", "csv"),
    (*DISCOVER, "--format", "nonsense"),
    (*DISCOVER, "--output", "o.xyz"),
    (*DISCOVER, "--support", "much"),
    (*DISCOVER, "--support", "2"),
    (*DISCOVER, "--confidence", "0"),
    (*DISCOVER, "--max-length", "1"),
    (*DISCOVER, "--max-types", "0"),
    (*DISCOVER, "--max-candidates", "all"),
    (*DISCOVER, "--top", "-1"),
    (*DETECT, "--stream"),
    (*DETECT, "--checkpoint", "state"),
    (*DETECT, "--columns", "ts timestamp"),
    (*DETECT, "--once"),
    (*DETECT, "--watermark", "1 hour"),
    (*DETECT, "--kafka", "a=b"),
    ("detect", "nonsense", "--input", "events.parquet"),
    ("detect", "rules", "--logs", "nonsense"),
    (*DETECT, "--format", "nonsense"),
    (*DETECT, "--output", "missing/o.json"),
    (*DETECT, "--time-unit", "nonsense"),
    (*DETECT, "--time-format", "nonsense"),
    (*TRANSLATE, "--from", "nonsense"),
    (*TRANSLATE, "--from", "eql", "--output", "rules"),
    (*TRANSLATE, "--from", "eql", "--report", "o.xlsx"),
    (*TRANSLATE, "--from", "eql", "--format", "nonsense"),
    (*TRANSLATE, "--from", "eql", "--field", "nonsense"),
    (*TRANSLATE, "--from", "eql", "--schema", "nonsense"),
    (*TRANSLATE, "--from", "eql", "--mapping", "windows"),
    (*TRANSLATE, "--from", "sigma", "--mapping", "nonsense"),
    ("translate", "nonsense", "--from", "eql"),
    ("backtest", "rules"),
    ("backtest", "nonsense", "--store", "store"),
    (*BACKTEST, "--alert-format", "nonsense"),
    (*BACKTEST, "--alert-format", "ecs"),
    (*BACKTEST, "--store", "store"),
    (*BACKTEST, "--input", "events.parquet"),
    (*BACKTEST, "--from", "yesterday"),
    (*BACKTEST, "--to", "2020-13-01"),
    (*BACKTEST, "--from", "2026-01-02", "--to", "2026-01-01"),
    (*BACKTEST, "--set", "x"),
    (*BACKTEST, "--set", "x=1", "--set", "x=2"),
    (*BACKTEST, "--alerts", "o.xlsx"),
    (*BACKTEST, "--output", "o.xlsx"),
    (*BACKTEST, "--format", "nonsense"),
    (*BACKTEST, "--input-format", "csv"),
    (*BACKTEST, "--label", "bad"),
    (*BACKTEST, "--labels", "events.parquet"),
    (*BACKTEST, "--chart", "o.svg"),
    ("backtest", "query.cq", "--input", "events.parquet", "--sweep"),
    ("backtest", "rules", "--store", "store", "--time", "at"),
    ("backtest", "rules", "--store", "store", "--time-unit", "s"),
    ("backtest", "rules", "--store", "store", "--time-format", "%Y"),
    ("store", "clean", "store", "--older-than", "-1"),
    ("warm", "--processes", "0"),
]

SPARK_REFUSES = [
    (*STREAM, "--watermark", "10m"),
    (*STREAM, "--watermark", "-1 second"),
    (*STREAM, "--every", "nonsense"),
    (*STREAM, "--max-ahead", "nonsense"),
]

ANYTHING = {
    ("run", "time"), ("run", "type"), ("stream", "time"), ("stream", "type"), ("check", "time"),
    ("check", "type"), ("explain", "time"), ("explain", "type"), ("query", "type"),
    ("append", "time"), ("append", "time-format"), ("open", "time"), ("open", "index-at"),
    ("stream", "checkpoint"), ("stream", "master"), ("stream", "packages"), ("why", "time"),
    ("why", "type"), ("demo", "page"), ("backtest", "measure"), ("backtest", "type"),
    ("discover", "label"), ("discover", "type"), ("mcp", "time"), ("mcp", "type"),
    ("serve", "time"), ("serve", "type"), ("serve", "write"), ("translate", "time"),
    ("translate", "type"), ("translate", "flat"), ("detect", "time"), ("detect", "type"),
    ("calibrate", "local"),
}  # fmt: skip
"""Options that name a column, a folder or something of Spark's: the data says whether it fits."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a query, a join, rules, events and a store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.cq").write_text(QUERY)
    (tmp_path / "join.cq").write_text("SELECT a.ts FROM a JOIN b ON a.type = b.type WINDOW 1 s")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "one.cq").write_text(QUERY)
    (tmp_path / "events").mkdir()
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    parquet.write_table(EVENTS, tmp_path / "events" / "events.parquet")
    done = CliRunner().invoke(app.typer(), ["store", "append", "store", "events.parquet"])
    assert done.exit_code == 0, done.output
    return tmp_path


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_means_nothing_is_wrong_use(words: tuple[str, ...], here: Path) -> None:
    done = CliRunner().invoke(app.typer(), words)
    wrong = isinstance(done.exception, WrongUseError | options.OptionError)
    assert wrong or done.exit_code == 2, (done.output, done.exception)
    assert not list(here.glob("o.*"))
    assert not (here / "rows").exists()


@pytest.mark.spark
@pytest.mark.parametrize("words", SPARK_REFUSES, ids=" ".join)
def test_lengths_of_time_are_read_by_spark(
    spark: SparkSession, words: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command would end the session of other tests; Spark works in another folder.
    words = tuple(str(here / word) if (here / word).exists() else word for word in words)
    monkeypatch.setattr(spark_session, "session", lambda *_, **__: nullcontext(spark))
    done = CliRunner().invoke(app.typer(), words)
    assert isinstance(done.exception, WrongUseError | options.OptionError), done.exception
    assert "is a length of time such as '10 seconds'" in str(done.exception)
    assert not (here / "rows").exists()


def all_options(group: Any) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from all_options(command)
            continue
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                yield name, max(parameter.opts, key=len).removeprefix("--")


def test_every_option_of_every_command_is_in_the_table() -> None:
    asked = {
        (words[1] if words[0] == "store" else words[0], word.removeprefix("--"))
        for words in (*REFUSED, *SPARK_REFUSES)
        for word in words
        if word.startswith("--")
    }
    assert len(set(all_options(typer.main.get_command(app.typer())))) > 30
    assert set(all_options(typer.main.get_command(app.typer()))) <= asked | ANYTHING
