"""Events a second of live queries: ``python -m benchmarks.streaming [KEYS] [EVENTS]``.

Files of events lie in a folder; each micro-batch takes a few of them. The rate is that of all
micro-batches but the first ones, in which workers start, from Spark's own progress; the rows are
compared with those of a batch run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import cepheid
from cepheid.runtime import spark_session

QUERIES = {
    "linear": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key "
    "WITHIN 10 seconds SLIDE 10 seconds",
    "edge": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x GROUP-BY key "
    "WITHIN 10 seconds SLIDE 10 seconds",
}
FILE_ROWS = 625_000
FILES_PER_BATCH = 2
WARM_UP = 2
SECOND = 1_000_000


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


def measure(spark: Any, text: str, folder: Path, events: pa.Table) -> tuple[float, float, int]:
    """Return events a second, the median seconds of a micro-batch, and the number of rows."""
    output = Path(tempfile.mkdtemp())
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH)
    rows = cepheid.query(text).stream(reader.parquet(str(folder)), watermark="1 second")
    writer = rows.writeStream.format("parquet").option("path", str(output / "rows"))
    writer = writer.option("checkpointLocation", str(output / "checkpoint"))
    live = writer.trigger(availableNow=True).start()
    live.awaitTermination()
    steady = [p for p in live.recentProgress if p["numInputRows"]][WARM_UP:]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    found = spark.read.parquet(str(output / "rows")).toArrow()
    check(found, cepheid.query(text).run(events))
    rate = sum(p["numInputRows"] for p in steady) / sum(seconds)
    return rate, float(np.median(seconds)), len(found)


def check(found: pa.Table, batch: pa.Table) -> None:
    """Compare the rows of closed windows with those of a batch run."""
    assert len(found), "no window was closed"
    closed = batch.filter(pc.field("window_end") <= pc.max(found["window_end"]))
    keys: Any = [("window_start", "ascending"), ("key", "ascending")]
    mine, theirs = found.sort_by(keys), closed.sort_by(keys)
    assert mine["key"].equals(theirs["key"])
    assert np.allclose(mine["count"].to_numpy(), theirs["count"].to_numpy(), rtol=1e-9)


def main(keys: int = 1000, events: int = 10_000_000) -> None:
    """Print a line for each query."""
    folder = Path(tempfile.mkdtemp())
    table = make_files(folder, keys, events)
    with warnings.catch_warnings(), spark_session.session("local[2]") as spark:
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        for name, text in QUERIES.items():
            rate, median, rows = measure(spark, text, folder, table)
            speed = f"{rate:>12,.0f} events/s {median:6.2f} s a micro-batch"
            print(f"{name:8}{keys:>9,} keys {speed} {rows:>9,} rows")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
