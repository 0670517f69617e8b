"""A micro-batch that Spark runs again gives the same rows, late events and bad records.

After a crash Spark reads the plan of the last micro-batch from its log, and runs it with the same
files, watermark and clock. The tests take commits out of a checkpoint, as if the driver had died
before it wrote them, and compare what leaves the second time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.runtime.test_bad_records import GOOD, TREND, WRONG, table
from tests.runtime.test_stream import read_stream, write_files

import cepheid
from cepheid import runtimes
from cepheid.api import query
from cepheid.options import LiveOptions
from cepheid.runtimes.spark.live_output import LiveOutput, united
from cepheid.runtimes.spark.sinks.parts import parts_sink
from cepheid.runtimes.spark.stream_tasks import BAD, LATE, ROWS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DAY = 86_400
SECOND = 1_000_000
Parts = dict[int, dict[str, list[str]]]
"""What left in each micro-batch: its parts, and their rows as sorted texts."""

RULES = {
    "counts": TREND,
    "pairs": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 9 s SLIDE 3 s",
    "lists": "RETURN MATCHES PATTERN SEQ(A, B) WHERE [user] WITHIN 3 s",
}
ROW_PATTERN = """SELECT * FROM s MATCH_RECOGNIZE (
    PARTITION BY user ORDER BY ts MEASURES FIRST(A.x) AS first, B.x AS last
    PATTERN (A B) DEFINE A AS type = 'A', B AS type = 'B')"""
KINDS: dict[str, Any] = {
    "trends": query(TREND),
    "edges": query(TREND.replace("GROUP-BY", "WHERE A.x < NEXT(A).x GROUP-BY")),
    "panes": query(RULES["pairs"]),
    "matches": query(RULES["lists"]),
    "situations": query("DEFINE S AS type = 'A' PARTITION BY user SITUATIONS S"),
    "funnel": query("RETURN FUNNEL(user) PATTERN SEQ(A, B) WITHIN 9 s SLIDE 9 s"),
    "select": query("SELECT user, COUNT(*) AS n FROM s GROUP BY user WINDOW 9 seconds"),
    "counted": query("SELECT user, COUNT(*) AS n FROM s GROUP BY user WINDOW 5 EVENTS"),
    "rows": ROW_PATTERN,
    "rules": cepheid.workload(RULES),
    "corrections": query(TREND),
}
WITHOUT_LATE = ("rows", "corrections")
"""Kinds whose late events do not leave beside their rows."""


def output_of(kind: str, source: DataFrame, **more: Any) -> LiveOutput:
    """Build the live query of a kind, all parts of which leave together."""
    asked = KINDS[kind]
    if isinstance(asked, str):
        spark = source.sparkSession
        rows, bad = cepheid.sql(spark, asked, tables={"s": source}, bad="side", **more)
        return united(rows, bad)
    late = "drop" if kind in WITHOUT_LATE else "side"
    if kind == "corrections":
        late, more = "correct", more | {"lateness": "20 seconds"}
    options = LiveOptions(**more, late=late, bad="side", tagged=True)
    run = runtimes.stream_workload if kind == "rules" else runtimes.stream
    output: LiveOutput = run(asked, source, options)
    return output


def started(output: LiveOutput, checkpoint: Path, found: Parts, **trigger: Any) -> Any:
    """Start a query that puts what leaves it into a dict."""

    def keep(part: str) -> Any:
        def write(batch: DataFrame, number: int) -> None:
            rows = sorted(map(repr, batch.toArrow().to_pylist()))
            if rows:
                found.setdefault(number, {})[part] = rows

        return write

    sinks = {part: keep(part) for part in (ROWS, LATE, BAD) if part in output.decode}
    writer = output.frame.writeStream.outputMode(output.mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(parts_sink(output, sinks)).trigger(**trigger).start()


def ended(output: LiveOutput, checkpoint: Path) -> Parts:
    """Run a query until its source is empty."""
    found: Parts = {}
    started(output, checkpoint, found, availableNow=True).awaitTermination()
    return found


def count(found: Parts, part: str) -> int:
    """Count the rows of a part."""
    return sum(len(parts.get(part, ())) for parts in found.values())


def crash(checkpoint: Path, number: int) -> None:
    """Let a checkpoint be as if the driver had died before it committed a micro-batch."""
    for log, first in (("commits", number), ("offsets", number + 1)):
        for path in (checkpoint / log).iterdir():
            digits = path.name.strip(".").removesuffix(".crc")
            if digits.isdigit() and int(digits) >= first:
                path.unlink()


def all_files(folder: Path) -> Path:
    """Write good, bad and late records; one is ahead of the clock by some minutes."""
    now = int((time.time() + DAY + 300) * SECOND)
    late = [(1 * SECOND, "A", "ann", 1.0), (22 * SECOND, "B", "ann", 1.0)]
    files: list[Any] = [
        [*GOOD[:20], *WRONG],
        GOOD[20:],
        [*late, (now, "A", "ann", 1.0), (42 * SECOND, "A", "bob", 2.0)],
        [(60 * SECOND, "A", "bob", 2.0), (70 * SECOND, "B", "bob", 2.0), *WRONG],
        [(90 * SECOND, "Z", "bob", 2.0)],
    ]
    return write_files(folder, [table(rows) for rows in files])


@share(11)
@pytest.mark.parametrize("kind", KINDS)
def test_a_micro_batch_runs_again(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    source = read_stream(spark, all_files(tmp_path / "events"), 1)

    def output() -> LiveOutput:
        return output_of(kind, source, watermark="5 seconds")

    first = ended(output(), tmp_path / "state")
    assert sum(ROWS in parts for parts in first.values()) > 1
    assert len(first[2][BAD]) == 1, "a time ahead of the clock"
    assert kind in WITHOUT_LATE or len(first[2][LATE]) == 2
    if kind == "corrections":
        assert any("'version': 2" in row for row in first[2][ROWS])
    crash(tmp_path / "state", 2)
    again = ended(output(), tmp_path / "state")
    # What is planned after the crash may be cut into other micro-batches.
    assert again[2] == first[2]
    assert min(again) == 2
    assert count(again, ROWS) == count({n: first[n] for n in first if n >= 2}, ROWS)


def test_a_micro_batch_without_rows_reads_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The sink of the rows is told the number of the micro-batch, and Spark starts no task."""
    source = read_stream(spark, all_files(tmp_path / "events"), 1)
    output = output_of("trends", source, watermark="5 seconds")
    plans: dict[bool, set[str]] = {True: set(), False: set()}
    numbers: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        plan: Any = batch._jdf.queryExecution().optimizedPlan()
        plans[batch.count() > 0].add(plan.nodeName())
        numbers.append(number)

    def pass_over(batch: DataFrame, _number: int) -> None:
        assert batch.count(), "a part that is not there was written"

    sinks = {ROWS: write, LATE: pass_over, BAD: pass_over}
    writer = output.frame.writeStream.option("checkpointLocation", str(tmp_path / "state"))
    live = writer.foreachBatch(parts_sink(output, sinks)).trigger(availableNow=True).start()
    live.awaitTermination()
    assert numbers == list(range(5))
    assert plans[False] == {"LocalRelation"}
    assert plans[True] == {"MapInArrow"}


@pytest.mark.slow
def test_the_clock_is_that_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """What is ahead of the clock is so by the log, whenever a micro-batch runs again."""
    source = read_stream(spark, all_files(tmp_path / "events"), 1)
    state = tmp_path / "state"
    first = ended(output_of("trends", source, watermark="5 seconds"), state)
    crash(state, 2)
    lines = (state / "offsets" / "2").read_text().splitlines()
    about = json.loads(lines[1])
    about["batchTimestampMs"] += 600_000
    (state / "offsets" / "2").write_text("\n".join([lines[0], json.dumps(about), *lines[2:]]))
    (state / "offsets" / ".2.crc").unlink(missing_ok=True)
    later = ended(output_of("trends", source, watermark="5 seconds"), state)
    assert BAD in first[2]
    assert BAD not in later[2]


SLOW = table([(n * SECOND // 4, "AB"[n % 2], "ann" if n % 3 else "bob", n / 2) for n in range(60)])
IDLE: dict[str, str] = {
    "trends": "RETURN user, COUNT(*) PATTERN SEQ(A, B) GROUP-BY user WITHIN 1 s SLIDE 1 s",
    "panes": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s SLIDE 1 s",
    "matches": "RETURN MATCHES PATTERN SEQ(A, B) WHERE [user] WITHIN 1 s",
    "corrections": "RETURN COUNT(*) PATTERN A+ WITHIN 1 s SLIDE 1 s",
    "select": "SELECT user, COUNT(*) AS n FROM s GROUP BY user WINDOW 1 second",
    "rules": "RETURN user, COUNT(*) PATTERN SEQ(A, NOT B) GROUP-BY user WITHIN 1 s SLIDE 1 s",
}


@share(6)
@pytest.mark.parametrize("kind", IDLE)
def test_a_micro_batch_without_events_runs_again(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time went on by the clock of the micro-batch: later, the same windows leave as then."""
    text = IDLE[kind]
    monkeypatch.setitem(KINDS, kind, cepheid.workload([text]) if kind == "rules" else query(text))
    source = read_stream(spark, write_files(tmp_path / "events", [SLOW]), 1)
    state = tmp_path / "state"

    def until(enough: int) -> Parts:
        found: Parts = {}
        output = output_of(kind, source, watermark="8 seconds", idle="1 second")
        live = started(output, state, found, processingTime="200 milliseconds")
        try:
            end = time.monotonic() + 120
            while sum(number > 0 for number in found) < enough:
                assert time.monotonic() < end, live.lastProgress
                assert not live.awaitTermination(0.1)
        finally:
            live.stop()
        return found

    first = until(1)
    number = min(number for number in first if number > 0)
    crash(state, number)
    time.sleep(2)
    again = until(1)
    assert again[number] == first[number]


@pytest.mark.slow
def test_the_sides_of_a_query_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """Late and bad records that are queries of their own."""
    source = read_stream(spark, all_files(tmp_path / "events"), 1)
    sides = KINDS["trends"].stream(source, watermark="5 seconds", late="side", bad="side")
    names = ("rows", "late", "bad")
    first = [ended(united(s, None), tmp_path / n) for n, s in zip(names, sides, strict=True)]
    assert all(count(found, ROWS) > 1 for found in first)
    for name, side, before in zip(names, sides, first, strict=True):
        crash(tmp_path / name, 2)
        again = ended(united(side, None), tmp_path / name)
        assert again.get(2) == before.get(2)
        assert count(again, ROWS) == count({n: before[n] for n in before if n >= 2}, ROWS)
