"""Measure a latency goal that a live query is held to: ``python -m benchmarks.latency_goal``.

A folder holds a backlog of files, and a program beside it adds more at a steady rate. What counts
are the seconds from the arrival of the file that closes a window to the rows of that window, for
files that arrive after the first ``--settle`` seconds, in which the backlog is worked off and
compilers are busy. ``--latency ''`` runs without a goal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import cepheid
from cepheid.interfaces.stream_command import FIRST_FILES
from cepheid.spark.file_records import infer_columns, read_folder
from cepheid.spark.session import session

CORES, KEYS = 2, 1_000
FILE_EVENTS, BACKLOG = 20_000, 300
QUERY = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 1 s SLIDE 1 s"


def write_file(folder: Path, number: int, rate: int) -> None:
    """Write the events of a stretch of time; the file is there at once, or not at all."""
    random = np.random.default_rng(number)
    length_us = FILE_EVENTS * 1_000_000 // rate
    table = pa.table(
        {
            "ts": pa.array(
                np.sort(random.integers(0, length_us, FILE_EVENTS)) + number * length_us,
                pa.timestamp("us", "UTC"),
            ),
            "type": pa.array(np.array(["A", "B"])[random.integers(0, 2, FILE_EVENTS)]),
            "key": pa.array(random.integers(0, KEYS, FILE_EVENTS)),
        }
    )
    part = folder / f".{number:06d}.part"
    parquet.write_table(table, part)
    part.rename(folder / f"{number:06d}.parquet")


def write_files(folder: Path, rate: int, seconds: float) -> None:
    """Add files at a steady rate, in a process of its own."""
    begun = time.monotonic()
    for number in range(int(seconds * rate / FILE_EVENTS)):
        wait = begun + number * FILE_EVENTS / rate - time.monotonic()
        time.sleep(max(wait, 0.0))
        write_file(folder, BACKLOG + number, rate)


def measure(rate: int, latency: str, seconds: float, settle: float) -> None:
    """Run the query beside the program that writes, and print what was measured."""
    tell = sys.stdout.write
    left: dict[float, float] = {}
    with (
        tempfile.TemporaryDirectory(prefix="latency-") as name,
        session(f"local[{CORES}]", live=True, light=True) as spark,
    ):
        folder = Path(name) / "events"
        folder.mkdir()
        for number in range(BACKLOG):
            write_file(folder, number, rate)
        spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
        columns = infer_columns(spark, str(folder), "parquet")
        frame = read_folder(
            spark, str(folder), "parquet", columns, FIRST_FILES if latency else None
        )
        query = cepheid.query(QUERY)
        rows = query.stream(frame, watermark="0 seconds", latency=latency or None)

        def note(batch: Any, _: int) -> None:
            found = {row[0].timestamp() for row in batch.select("window_end").distinct().collect()}
            left.update(dict.fromkeys(found - left.keys(), time.time()))

        writer = rows.writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", str(Path(name) / "state"))
        live = writer.trigger(processingTime="0 seconds").start()
        beside = [sys.executable, "-m", "benchmarks.latency_goal", "--write", str(folder)]
        more = ["--rate", str(rate), "--seconds", str(seconds)]
        subprocess.run([*beside, *more], check=True)
        live.processAllAvailable()
        tell(query.explain(events=live, analyze=True).partition("analysis")[2] + "\n")
        live.stop()
        per_file = FILE_EVENTS / rate
        took = []
        for end, moment in left.items():
            place = folder / f"{round(end / per_file):06d}.parquet"
            if round(end / per_file) >= BACKLOG + settle * rate / FILE_EVENTS and place.exists():
                took.append(moment - place.stat().st_mtime)
    found = np.sort(took)
    shown = ", ".join(f"{name} {np.quantile(found, q):.2f}" for name, q in SHOWN)
    tell(f"{rate:,} events/s, goal {latency or 'none'}: {len(found)} windows, seconds: {shown}\n")


SHOWN = (("median", 0.5), ("99 of 100", 0.99), ("longest", 1.0))


def main() -> None:
    """Measure, or write files beside a measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=200_000, help="events a second")
    parser.add_argument("--latency", default="2 seconds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=25.0)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.write is not None:
        write_files(asked.write, asked.rate, asked.seconds)
    else:
        measure(asked.rate, asked.latency, asked.seconds, asked.settle)


if __name__ == "__main__":
    main()
