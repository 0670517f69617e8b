"""A live query beside Flink's MATCH_RECOGNIZE: ``python -m benchmarks.streaming_flink``.

FLINK_PYTHON names a Python with ``apache-flink``, in an environment of its own. Both systems read
the same CSV as a stream, Flink in one file, since it reads several in any order. On two cores, with
a watermark of a second, they find for every A the next B and the next C of its key within a second,
and must agree. The second run of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

import cepheid
from cepheid.spark import session as spark_session

TEXT = (
    "RETURN a.ts AS a, c.ts AS c PATTERN SEQ(A a, B b, C c) SEMANTICS skip-till-next-match "
    "WHERE [key] WITHIN 1 second"
)
COLUMNS = "ts bigint, type string, key bigint"
FILES, FILES_PER_BATCH = 10, 5
KEYS = 100
RUNS = 2
CHILD = Path(__file__).with_name("flink_child.py")


def make_files(folder: Path, count: int) -> None:
    """Write events in the order of time, one every 3 ms, so that none is a second after another.

    Flink's windows end before their length, ours with it.
    """
    random = np.random.default_rng(7)
    rows = count // FILES
    for number in range(FILES):
        times = 3 * np.arange(number * rows, (number + 1) * rows) + 3
        kinds = np.array(["A", "B", "C"])[random.integers(0, 3, rows)]
        keys = random.integers(0, KEYS, rows)
        write(folder / f"{number:03}.csv", number, times, kinds, keys)
    late = np.array([3 * count + 86_400_000])
    write(folder / "last.csv", FILES, late, np.array(["Z"]), np.array([0]))


def in_one_file(folder: Path) -> Path:
    """Return a file with the lines of all."""
    whole = Path(tempfile.mkdtemp()) / "all.csv"
    whole.write_bytes(b"".join(path.read_bytes() for path in sorted(folder.glob("*.csv"))))
    return whole


def write(path: Path, number: int, times: Any, kinds: Any, keys: Any) -> None:
    """Write a file without a header, which a stream reads in its turn."""
    table = pa.table({"ts": times, "type": kinds, "key": keys})
    csv.write_csv(table, path, csv.WriteOptions(include_header=False, quoting_style="none"))
    os.utime(path, (1000 + number, 1000 + number))


def ours(spark: Any, folder: Path) -> dict[str, Any]:
    """Run the query live over all files; return what was found and how long it took."""
    compiled = cepheid.query(TEXT, time_unit="ms")
    found = {"matches": 0, "sum": 0}

    def take(batch: Any, _number: int) -> None:
        table = batch.toArrow()
        found["matches"] += len(table)
        found["sum"] += int(np.sum(table["c"].to_numpy() - table["a"].to_numpy()))

    begin = time.perf_counter()
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", FILES_PER_BATCH)
    rows = compiled.stream(source.csv(str(folder)), watermark="1 second")
    live = rows.writeStream.foreachBatch(take).option("checkpointLocation", tempfile.mkdtemp())
    live.trigger(availableNow=True).start().awaitTermination()
    return {"seconds": time.perf_counter() - begin, **found}


def flink(python: str, events: Path) -> dict[str, Any]:
    """Run Flink in a process of its own; return its last run."""
    command = [python, str(CHILD), str(events), "2", str(RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        message = f"Flink failed: {done.stderr.strip().splitlines()[-1:]}"
        raise RuntimeError(message)
    last: dict[str, Any] = json.loads(lines[-1])
    return last


def main() -> None:
    """Print both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    count = parser.parse_args().events
    folder = Path(tempfile.mkdtemp())
    make_files(folder, count)
    with warnings.catch_warnings(), spark_session.session("local[2]") as spark:
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(spark, str(folder))
        mine = [ours(spark, folder) for _ in range(RUNS)][-1]
    speed = count / mine["seconds"]
    print(f"Cepheid on Spark {speed:>12,.0f} events/s {mine['matches']:>9,} matches")
    python = os.environ.get("FLINK_PYTHON")
    if python is None:
        print("Flink: skipped, FLINK_PYTHON names no Python with apache-flink")
        return
    theirs = flink(python, in_one_file(folder))
    print(f"Flink SQL        {count / theirs['seconds']:>12,.0f} events/s", end=" ")
    print(f"{theirs['matches']:>9,} matches")
    assert (mine["matches"], mine["sum"]) == (theirs["matches"], theirs["sum"]), "they differ"
    print(f"ratio            {theirs['seconds'] / mine['seconds']:>12.1f}")


if __name__ == "__main__":
    main()
