"""Processor time of a micro-batch that has next to nothing to do: ``-m benchmarks.micro_batch``.

Every micro-batch reads one file of 1,000 events, so that what Spark does for any micro-batch is
left. The settings of ``cepheid stream`` and those before take turns in one session. Only processor
time counts, that of all processes, so other programs hardly matter.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.processes import cpu_seconds
from benchmarks.streaming import QUERIES, SECOND
from pyarrow import parquet

import cepheid
from cepheid.spark import session as spark_session
from cepheid.spark.file_records import read_folder

EVENTS = 1_000
COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
INTERPRETED = spark_session.BLOBS_SETTINGS
SETTINGS: dict[str, tuple[dict[str, str], bool]] = {
    "code and checksums": (COMPILED, True),
    "no checksums": (COMPILED, False),
    "no code, no checksums": (INTERPRETED, False),
}
"""Spark's settings of code, and whether files of a checkpoint have a second one beside them."""


def make_files(folder: Path, count: int) -> None:
    """Write files of a quarter of a second each."""
    random, step = np.random.default_rng(1), SECOND // 4
    for number in range(count):
        times = np.linspace(number * step, (number + 1) * step, EVENTS, dtype=np.int64) + SECOND
        columns = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, EVENTS)]),
            "key": pa.array(random.integers(0, 1_000, EVENTS)),
        }
        path = folder / f"{number:04}.parquet"
        parquet.write_table(pa.table(columns), path)
        os.utime(path, (1000 + number, 1000 + number))


def run(spark: Any, folder: Path, count: int) -> float:
    """Run a query over all files, one in a micro-batch; return CPU seconds of a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    events = read_folder(spark, str(folder), "parquet", schema, 1)
    text = QUERIES["linear"].replace("10 seconds", "1 second")
    rows = cepheid.query(text).stream(events, watermark="1 second")

    def take(batch: Any, _number: int) -> None:
        batch.select("window_end").toArrow()

    with tempfile.TemporaryDirectory() as state:
        begun = cpu_seconds()
        writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", state)
        writer.trigger(availableNow=True).start().awaitTermination()
        return (cpu_seconds() - begun) / count


def main() -> None:
    """Print a line for each turn; the first one warms the session up and does not count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as place,
        spark_session.session("local[2]", live=True, light=True) as spark,
    ):
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(spark, place)
        make_files(Path(place), asked.batches)
        jvm: Any = spark.sparkContext._jvm
        disk = jvm.org.apache.hadoop.fs.FileSystem.getLocal(
            spark.sparkContext._jsc.hadoopConfiguration()
        )
        run(spark, Path(place), asked.batches)
        for _ in range(asked.turns):
            for name, (settings, checksums) in SETTINGS.items():
                for key, value in settings.items():
                    spark.conf.set(key, value)
                disk.setWriteChecksum(checksums)
                cost = run(spark, Path(place), asked.batches)
                print(f"{name:24}{1000 * cost:8.0f} ms of CPU a micro-batch", flush=True)


if __name__ == "__main__":
    main()
