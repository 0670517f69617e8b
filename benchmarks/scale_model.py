"""Predict 16, 128 and 1,000 cores from measured tasks: ``python -m benchmarks.scale_model``.

A few runs on this machine give the processor time of a stage, of a task and of an event, and the
bytes of an event. A model of cores, network and stragglers is fitted to the small runs with one
worker and with two, predicts the large ones with one, two and four workers, and is compared with
what they took; then it is asked about clusters that are not here. Times are processor times,
because others may use this machine: tasks side by side take longer, as they share its caches.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
from benchmarks.plans import jvm_seconds, makespan, noting
from pyarrow import parquet

import cepheid
from cepheid.runtimes.scan import find_paths, read_footers
from cepheid.runtimes.spark import scan
from cepheid.spark.session import session

QUERY = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 10 s SLIDE 10 s"
SMALL, LARGE = (8_000_000, 16_000_000), 40_000_000
LIVE_COUNTS = 200_000, 800_000, 1_600_000
"""Events of a micro-batch."""
LIVE_FILES = 4
WORKERS = (1, 2, 4)
FITTED_WORKERS = 2
"""More workers than cores are predicted by the figures of as many as cores."""
ROUNDS, WARM, LIVE_WARM = 3, 3, 2
"""Compilers of the JVM take processor time, too, most of it in the first runs."""
GROUP_ROWS = 250_000
RATE = 100_000
"""Events a second of the stream that is written."""

BATCH_EVENTS, LIVE_RATE = 10**12, 10**9
CLUSTERS = (16, 128, 1000)
NODE_CORES = 16
NODE_GBIT = 10.0
"""Cores and network of a machine; storage is reached through the network."""
FILE_ROWS = 100_000_000
ROW_GROUP = 1_000_000
STRAGGLER = 0.3
"""The share of a task for which others wait at the end of a stage."""
DRIVER_S = 0.001
"""To hand a task to an executor."""


class Fit(NamedTuple):
    """Seconds of a stage and of a task, nanoseconds of an event, and its bytes on disk."""

    stage_s: float
    task_s: float
    event_ns: float
    event_bytes: float

    def seconds(self, events: float, cores: int, tasks: int) -> float:
        """Predict a stage with tasks of equal size."""
        one = self.task_s + events / tasks * self.event_ns / 1e9
        return self.stage_s + one * -(-tasks // cores)


def fitted(points: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Fit seconds of a task and nanoseconds of an event to (tasks, events, seconds)."""
    tasks, events, seconds = np.array(list(points)).T
    slope = np.linalg.lstsq(np.stack([tasks, events], 1), seconds)[0]
    if slope[1] < 0.0:
        return float(seconds.mean()), 0.0
    if slope[0] < 0.0:
        return 0.0, float((events @ seconds) / (events @ events)) * 1e9
    return float(slope[0]), float(slope[1]) * 1e9


def write_events(folder: Path, count: int, files: int) -> None:
    """Write files in the order of time."""
    random = np.random.default_rng(29)
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(count) * (1_000_000 // RATE), pa.timestamp("us")),
        "type": np.array(["A", "B"])[random.integers(0, 2, count)],
        "key": random.integers(0, 1000, count),
    }
    table, each = pa.table(columns), -(-count // files)
    folder.mkdir()
    for number in range(files):
        path = folder / f"{number}.parquet"
        parquet.write_table(table.slice(number * each, each), path, row_group_size=GROUP_ROWS)


class Run(NamedTuple):
    """Seconds of the driver and the JVM, and those of every task."""

    spark_s: float
    tasks: list[float]

    def seconds(self, workers: int) -> float:
        """Compute the seconds of the run on idle cores."""
        return self.spark_s + makespan(self.tasks, workers)


def batch(spark: Any, pid: int, folder: Path, notes: Path) -> Run:
    """Run a query over files and note the processor times."""
    for file in notes.iterdir():
        file.unlink()
    jvm, here = jvm_seconds(pid), time.process_time()
    with mock.patch.object(scan, "in_task", noting(str(notes))):
        rows = cepheid.query(QUERY).run(str(folder), spark=spark, strategy="scan slices")
    rows.agg({"count": "sum"}).collect()
    jvm, here = jvm_seconds(pid) - jvm, time.process_time() - here
    return Run(here + jvm, [float(file.read_text()) for file in notes.iterdir()])


def tree_seconds(pid: int) -> float:
    """Read the processor time of the JVM and of all Python workers."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    tree, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in tree} - tree
        tree, grown = tree | more, bool(more)
    return sum(jvm_seconds(one) for one in tree)


def live(spark: Any, pid: int, folder: Path, place: Path) -> float:
    """Run a live query over files, one a micro-batch; return the processor seconds of each."""
    schema = spark.read.parquet(str(folder)).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = cepheid.query(QUERY).stream(source.parquet(str(folder)), watermark="1 second")
    before = tree_seconds(pid)
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(place))
    writer.trigger(availableNow=True).start().awaitTermination()
    return (tree_seconds(pid) - before) / LIVE_FILES


def measure_batch(root: Path, tell: Any) -> Fit:
    """Fit the batch model to small runs with one worker, and compare it with large runs."""
    files = {count: root / f"batch-{count}" for count in (*SMALL, LARGE)}
    for count, folder in files.items():
        write_events(folder, count, 4)
    size = sum(path.stat().st_size for path in files[LARGE].iterdir()) / LARGE
    (root / "notes").mkdir()
    model: Fit | None = None
    for workers in WORKERS:
        with session(f"local[{workers}]") as spark:
            pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

            def least(count: int, rounds: int = ROUNDS, pid: int = pid, spark: Any = spark) -> Run:
                runs = [batch(spark, pid, files[count], root / "notes") for _ in range(rounds)]
                return Run(min(run.spark_s for run in runs), min(runs, key=_work).tasks)

            # The JVM compiles in the first runs, and more where there are more rows.
            least(LARGE, WARM)
            if model is None or workers <= FITTED_WORKERS:
                points = [(count, least(count)) for count in SMALL]
                costs = fitted([(len(run.tasks), count, _work(run)) for count, run in points])
                model = Fit(min(run.spark_s for _, run in points), *costs, size)
                tell(f"{workers} workers: stage {model.stage_s:.2f} s, task {model.task_s:.3f} s, ")
                tell(f"event {model.event_ns:.1f} ns, {size:.1f} B\n")
                for count, run in points:
                    tell(f"  {count:,} events: {run.spark_s:.2f} s, tasks {run.tasks}\n")
            run = least(LARGE, WARM + ROUNDS)
            told, found = model.seconds(LARGE, workers, len(run.tasks)), run.seconds(workers)
            tell(f"| batch, {workers} workers | {len(run.tasks)} | {told:.2f} | {found:.2f} |")
            tell(f" {told / found - 1:+.0%} |\n")
            tell(f"  {LARGE:,} events: {run.spark_s:.2f} s, tasks {run.tasks}\n")
    assert model is not None
    return model


def _work(run: Run) -> float:
    return sum(run.tasks)


def measure_live(root: Path, tell: Any) -> Fit:
    """Fit the live model to small micro-batches, and compare it with large ones."""
    counts = list(LIVE_COUNTS)
    spent = {}
    with session("local[2]") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        for number, count in enumerate([counts[-1]] * LIVE_WARM + counts * ROUNDS):
            folder = root / f"live-{count}"
            if not folder.exists():
                write_events(folder, count * LIVE_FILES, LIVE_FILES)
            took = live(spark, pid, folder, root / f"checkpoint-{number}")
            tell(f"  {count:,} events a micro-batch: {took:.2f} CPU s\n")
            if number >= LIVE_WARM:
                spent[count] = min(took, spent.get(count, took))
    batch_s, event_ns = fitted([(1, count, spent[count]) for count in counts[:2]])
    model = Fit(batch_s, 0.0, event_ns, 0.0)
    told = model.stage_s + counts[2] * model.event_ns / 1e9
    tell(f"micro-batch {model.stage_s:.2f} CPU s, event {model.event_ns:.0f} ns\n")
    tell(f"| live, {counts[2]:,} events a micro-batch | | {told:.2f} | {spent[counts[2]]:.2f} |")
    tell(f" {told / spent[counts[2]] - 1:+.0%} |\n")
    return model


def footer_seconds(folder: Path) -> float:
    """Measure what the driver takes for the footer of one row group."""
    paths = find_paths(str(folder))
    begin = time.process_time()
    for _ in range(10):
        read_footers(paths, "ts")
    return (time.process_time() - begin) / (10 * LARGE / GROUP_ROWS)


def predict_batch(model: Fit, footer_s: float, tell: Any) -> None:
    """Tell what bounds a batch query on clusters of other sizes."""
    for cores in CLUSTERS:
        tasks = 8 * cores
        work = (BATCH_EVENTS * model.event_ns / 1e9 + tasks * model.task_s) / cores
        network = BATCH_EVENTS * model.event_bytes * 8 / (NODE_GBIT * 1e9 * cores / NODE_CORES)
        driver = BATCH_EVENTS / ROW_GROUP * footer_s + tasks * DRIVER_S
        last = STRAGGLER * max(work, network) / 8
        parts = {"cores": work, "network": network, "driver": driver, "stragglers": last}
        whole = max(work, network) + driver + last
        first = max(parts, key=lambda name: parts[name])
        shown = " | ".join(f"{seconds:,.0f}" for seconds in parts.values())
        tell(f"| {cores:,} | {shown} | {whole:,.0f} | {first} |\n")


def predict_live(model: Fit, tell: Any) -> None:
    """Tell how many events a second a live query takes on clusters of other sizes."""
    for cores in CLUSTERS:
        by_core = cores * 1e9 / model.event_ns
        network = NODE_GBIT * 1e9 / 8 * cores / NODE_CORES / (2 * 24)
        whole = min(by_core, network)
        tell(f"| {cores:,} | {by_core / 1e6:,.0f} | {network / 1e6:,.0f} | {whole / 1e6:,.0f} |")
        tell(f" {LIVE_RATE / whole * cores:,.0f} |\n")


def main() -> None:
    """Print all tables."""
    os.environ.setdefault("CEPHEID_KERNELS", "compile")

    def tell(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        model = measure_batch(Path(name), tell)
        footer_s = footer_seconds(Path(name) / f"batch-{LARGE}")
        tell(f"footer of a row group {footer_s * 1e6:.0f} us\n")
        predict_batch(model, footer_s, tell)
        predict_live(measure_live(Path(name), tell), tell)


if __name__ == "__main__":
    main()
