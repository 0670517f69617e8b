"""Events a second of live queries: ``python -m benchmarks.streaming --keys 1000``.

Files of events lie in a folder; each micro-batch takes ``--files`` of them, through Spark's own
reader of files and, with ``--source folder``, through that of Cepheid. The rate is that of all
micro-batches but the first ones, in which workers start, from Spark's own progress; the rows are
compared with those of a batch run. ``--soak SECONDS`` writes files while the query runs instead,
through the same source, and tells memory, lag, and how long rows take to leave.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.processes import cpu_seconds
from benchmarks.streaming_live import soak
from pyarrow import parquet

import cepheid
from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Needs
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream as spark_stream
from cepheid.spark import session as spark_session
from cepheid.spark.file_records import read_folder

QUERIES = {
    "linear": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key "
    "WITHIN 10 seconds SLIDE 10 seconds",
    "edge": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x GROUP-BY key "
    "WITHIN 10 seconds SLIDE 10 seconds",
    "whole": "RETURN LOG2(COUNT(*)) AS count PATTERN SEQ(A+, B) WITHIN 10 seconds SLIDE 10 seconds",
    "sliding": "RETURN LOG2(COUNT(*)) AS count PATTERN SEQ(A+, B) WITHIN 10 seconds SLIDE 1 second",
    "sums": "RETURN LOG2(COUNT(*)) AS count, AVG(A.x), MIN(B.x) PATTERN SEQ(A+, B) "
    "WITHIN 10 seconds SLIDE 1 second",
}
"""By key, and of the whole stream."""

FILE_ROWS = 625_000
WARM_UP = 2
SECOND = 1_000_000


class Measured(NamedTuple):
    """What a run took."""

    rate: float
    median: float
    cpu: float
    rows: int


def make_files(folder: Path, keys: int, events: int) -> pa.Table:
    """Write events, a file for every five seconds; return all of them."""
    random = np.random.default_rng(7)
    tables = []
    for number in range(-(-events // FILE_ROWS)):
        times = number * 5 * SECOND + np.sort(random.integers(0, 5 * SECOND, FILE_ROWS))
        table = pa.table(
            {
                "ts": pa.array(times + SECOND, pa.timestamp("us", "UTC")),
                "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, FILE_ROWS)]),
                "key": pa.array(random.integers(0, keys, FILE_ROWS)),
                "x": pa.array(random.random(FILE_ROWS)),
            }
        )
        path = folder / f"{number:04}.parquet"
        parquet.write_table(table, path)
        os.utime(path, (1000 + number, 1000 + number))
        tables.append(table)
    return pa.concat_tables(tables)


def in_one_bucket() -> Any:
    """Return a context in which panes are not kept apart."""

    def without_panes(plan: Plan) -> Needs:
        return msgspec.structs.replace(needs_of(plan), no_panes="for comparison")

    return mock.patch.object(spark_stream, "needs_of", without_panes)


def source(spark: Any, folder: Path, files: int | None, *, own: bool) -> Any:
    """Open a folder as a stream, with Cepheid's own reader or that of Spark.

    A micro-batch takes so many files, or all that are new.
    """
    schema = spark.read.parquet(str(folder)).schema
    if own:
        return read_folder(spark, str(folder), "parquet", schema, files)
    reader = spark.readStream.schema(schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def measure(spark: Any, text: str, stream: Any, events: pa.Table) -> Measured:
    """Run a query over all files and compare its rows."""
    output = Path(tempfile.mkdtemp())
    rows = cepheid.query(text).stream(stream, watermark="1 second")
    writer = rows.writeStream.format("parquet").option("path", str(output / "rows"))
    writer = writer.option("checkpointLocation", str(output / "checkpoint"))
    live = writer.trigger(availableNow=True).start()
    begin = None
    while not live.awaitTermination(0.05):
        if begin is None and len(live.recentProgress) >= WARM_UP:
            begin = (cpu_seconds(), len(live.recentProgress))
    progress = [p for p in live.recentProgress if p["numInputRows"]]
    records = [p.observedMetrics["cepheid_records"]["records"] for p in progress]
    steady = progress[WARM_UP:]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    cpu = 0.0
    if begin is not None:
        counted = sum(records[begin[1] :])
        cpu = (cpu_seconds() - begin[0]) / max(counted, 1) * 1e6
    found = spark.read.parquet(str(output / "rows")).toArrow()
    check(found, cepheid.query(text).run(events))
    rate = sum(records[WARM_UP:]) / sum(seconds)
    return Measured(rate, float(np.median(seconds)), cpu, len(found))


def check(found: pa.Table, batch: pa.Table) -> None:
    """Compare the rows of closed windows with those of a batch run."""
    assert len(found), "no window was closed"
    closed = batch.filter(pc.field("window_end") <= pc.max(found["window_end"]))
    floats = [field.name for field in found.schema if pa.types.is_floating(field.type)]
    names = [name for name in found.column_names if name not in floats]
    order: Any = [(name, "ascending") for name in names]
    mine, theirs = found.sort_by(order), closed.sort_by(order)
    assert mine.select(names).equals(theirs.select(names))
    for name in floats:
        assert np.allclose(mine[name].to_numpy(), theirs[name].to_numpy(), rtol=1e-9)


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--query", choices=[*QUERIES, "all"], default="all")
    parser.add_argument("--files", type=int, default=2, help="files of a micro-batch")
    parser.add_argument("--source", choices=["spark", "folder"], default="spark")
    parser.add_argument("--soak", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--rate", type=int, default=100_000, help="events a second of the soak")
    parser.add_argument("--trigger", default="1 second", help="how often the soak's batches start")
    parser.add_argument("--window", default="10 seconds", help="the soak's windows")
    return parser.parse_args()


def main() -> None:
    """Print a line for each query."""
    options = arguments()
    names = list(QUERIES) if options.query == "all" else [options.query]
    folder = Path(tempfile.mkdtemp())
    table = None if options.soak else make_files(folder, options.keys, options.events)
    own = options.source == "folder"
    with (
        warnings.catch_warnings(),
        spark_session.session("local[2]", live=True, light=own, blobs=own) as spark,
    ):
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(spark, str(folder))
        for name in names:
            if table is None:
                print(f"{name}, {options.keys:,} keys, {options.rate:,} events/s")
                text = QUERIES[name].replace("10 seconds", options.window)
                soak(
                    lambda written: source(spark, written, None, own=own), text,
                    options.keys, options.rate, options.soak, options.trigger,
                )  # fmt: skip
                continue
            stream = source(spark, folder, options.files, own=own)
            report(name, options.keys, measure(spark, QUERIES[name], stream, table))
            if not needs_of(cepheid.query(QUERIES[name]).plan).no_panes:
                with in_one_bucket():
                    report("  in one", options.keys, measure(spark, QUERIES[name], stream, table))


def report(name: str, keys: int, done: Measured) -> None:
    """Print a line."""
    speed = f"{done.rate:>12,.0f} events/s {done.median:6.2f} s a micro-batch"
    cost = f"{done.cpu:5.2f} CPU seconds a million"
    print(f"{name:8}{keys:>9,} keys {speed} {cost} {done.rows:>9,} rows")


if __name__ == "__main__":
    main()
