"""A driver to be killed: ``python -m tests.chaos.driver FOLDER``; it waits for the file ``go``.

It runs the live queries of FOLDER/round.json at once, from their checkpoints, until their sources
are empty. It notes the numbers of every micro-batch, and writes the file ``done`` at the end.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from tests.chaos.kinds import KINDS
from tests.chaos.records import COLUMNS, WATERMARK
from tests.spark_options import options as spark_options

import cepheid
from cepheid import runtimes
from cepheid.api import query
from cepheid.interfaces.stream_command import output_in, start
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_restart import begun
from cepheid.interfaces.stream_sources import source_of
from cepheid.runtimes.spark.live_output import united
from cepheid.spark.failures import FAILURES, clear_error
from cepheid.spark.session import keep_checkpoints_local
from cepheid.workloads import workload

ROUND, GO, DONE = "round.json", "go", "done"
TRIES = 50
"""How often a task may fail: its workers are killed many times."""


class Asked(msgspec.Struct, frozen=True):
    """What a round runs: a source, and a sink for each kind of query."""

    source: str
    sinks: dict[str, str]
    files: int | None
    rows: int | None

    def options(self, name: str, folder: Path) -> Options:
        """Build the options of the command line for a kind."""
        return Options(
            self.source,
            self.sinks[name],
            folder / "state" / name,
            WATERMARK,
            format="json" if self.files else None,
            once=True,
            files=self.files,
            rows=self.rows,
            columns=COLUMNS,
            late="side" if KINDS[name].shows_late else "drop",
        )


def start_kind(spark: SparkSession, name: str, options: Options) -> Any:
    """Start the live query of a kind, or let it go on."""
    text = KINDS[name].text
    if isinstance(text, str) and name != "rows":
        return start(output_in(spark, query(text), options), options, lambda write: write)
    with begun(spark, options, 1000):
        events = source_of(spark, str(options.source), options)
        if isinstance(text, dict):
            output = runtimes.stream_workload(workload(text), events, options.live)
        else:
            rows, bad = cepheid.sql(
                spark, text, tables={"s": events}, watermark=WATERMARK, bad="side"
            )
            output = united(rows, bad)
        return start(output, options, lambda write: write)


def note(folder: Path, name: str, live: Any, seen: set[int]) -> None:
    """Add the numbers of new micro-batches to a file."""
    with (folder / f"numbers-{name}.jsonl").open("ab") as file:
        for progress in live.recentProgress:
            counts = progress["observedMetrics"]
            if progress["batchId"] in seen or "cepheid_records" not in counts:
                continue
            seen.add(progress["batchId"])
            records, own = counts["cepheid_records"], counts.get("cepheid")
            line = {"batch": progress["batchId"], "in": records["records"], "bad": records["bad"]}
            if own is not None:
                line |= {"seen": own["seen"] or 0, "late": own["late"] or 0}
            file.write(msgspec.json.encode(line) + b"\n")


def main(place: str) -> None:
    """Run the queries to their ends."""
    folder = Path(place)
    asked = msgspec.json.decode((folder / ROUND).read_bytes(), type=Asked)
    builder = SparkSession.builder.master(f"local[2,{TRIES}]")
    for key, value in spark_options().items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "10")
    spark = builder.getOrCreate()
    keep_checkpoints_local(spark, place)
    while not (folder / GO).exists():
        time.sleep(0.02)
    try:
        lives = {}
        for name in asked.sinks:
            lives[name] = start_kind(spark, name, asked.options(name, folder))
            # Sources that start at once would keep each other waiting for longer than Spark does.
            while lives[name].isActive and lives[name].status["message"].startswith("Init"):
                time.sleep(0.05)
        seen: dict[str, set[int]] = {name: set() for name in lives}
        while True:
            ended = [live.awaitTermination(0.2) for live in lives.values()]
            for name, live in lives.items():
                note(folder, name, live, seen[name])
            if all(ended):
                break
    except FAILURES as error:
        sys.exit(f"a query failed: {clear_error(error)}")
    (folder / DONE).touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
