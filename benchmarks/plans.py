"""Compare the strategy that the cost model chooses with all others: ``python -m benchmarks.plans``.

Pairs of a query and a stream are drawn at random; each runs by every strategy that can run it, and
by the one that the model chooses, passes over the data for the choice included. The machine may be
busy, so seconds are made of processor times: those of the driver and of the JVM, and for each stage
the time that its Python tasks would take on idle cores. ``--seed`` draws other pairs, ``--first``
leaves some out that another run has measured, and ``--json`` keeps what the model estimated, too.
The model uses the figures of ``cepheid calibrate``, if there are any.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import cepheid
from cepheid.options import OptionError
from cepheid.runtimes.spark import scan, tasks
from cepheid.spark import frame_files
from cepheid.spark.session import session

CORES, FILES, SPAN_S = 2, 4, 1000
RUNS, SHORT_RUNS, SHORT_S = 2, 4, 0.3
"""Short runs are measured more often: compilers of the JVM and its clock of 10 ms disturb them."""
BAR, SHARE = 1.3, 0.9
READ_FILES = "FrameFiles"
"""The name of tasks that read the files beneath a DataFrame."""
FRAMES = ("combine", "key shuffle", "time shuffle")
PATTERNS = {
    "linear": "RETURN {key}COUNT(*) PATTERN SEQ(A a, B b) {where}",
    "kleene": "RETURN {key}COUNT(*), SUM(a.x) PATTERN SEQ(A a+, B b) {where}",
    "indexed": "RETURN {key}COUNT(*) PATTERN A a+ {where} a.x < NEXT(a).x",
    "previous": "RETURN {key}COUNT(*) PATTERN A a+ {where} a.x < NEXT(a).x SEMANTICS contiguous",
}
WINDOWS = {
    "none": "",
    "2 s": "WITHIN 2 s SLIDE 2 s",
    "20 s": "WITHIN 20 s SLIDE 20 s",
    "20 s by 5 s": "WITHIN 20 s SLIDE 5 s",
    "200 s": "WITHIN 200 s SLIDE 200 s",
}


class Pair(NamedTuple):
    """A query and a stream."""

    pattern: str
    window: str
    grouped: str
    rows: int
    keys: int
    zipf: bool
    in_order: bool
    files: bool

    @property
    def text(self) -> str:
        """Write the query."""
        by_key = self.grouped != "no keys"
        compares = "NEXT" in PATTERNS[self.pattern]
        where = "WHERE [key] AND" if by_key else "WHERE"
        if not compares:
            where = "WHERE [key]" if by_key else ""
        shown = "key, " if self.grouped == "each key" else ""
        text = PATTERNS[self.pattern].format(key=shown, where=where)
        group = " GROUP-BY key" if shown else ""
        return f"{text}{group} {WINDOWS[self.window]}"


def draw_pair(random: np.random.Generator) -> Pair:
    """Draw a pair; queries that have too many trends to compute are drawn again."""
    while True:
        pair = Pair(
            pattern=str(random.choice(list(PATTERNS))),
            window=str(random.choice(list(WINDOWS))),
            grouped=str(random.choice(["no keys", "each key", "all keys"])),
            rows=int(random.choice([30_000, 150_000, 600_000])),
            keys=int(random.choice([20, 2_000, 50_000])),
            zipf=bool(random.integers(2)),
            in_order=bool(random.integers(2)),
            files=bool(random.integers(2)),
        )
        if pair.pattern != "indexed" or pair.window in ("2 s", "20 s", "20 s by 5 s"):
            return pair


def write_events(folder: Path, pair: Pair, random: np.random.Generator) -> None:
    """Write the files of a stream: ranges of time, or files that overlap."""
    times = np.sort(random.integers(0, SPAN_S * 1_000_000, pair.rows))
    weights = np.arange(1, pair.keys + 1) ** (-1.2 if pair.zipf else 0.0)
    keys = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(pair.rows))
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "type": np.array(["A", "B"])[random.integers(0, 2, pair.rows)],
            "key": np.minimum(keys, pair.keys - 1),
            "x": random.random(pair.rows),
        }
    )
    folder.mkdir()
    each = -(-pair.rows // FILES)
    for number in range(FILES):
        part = np.arange(number, pair.rows, FILES)
        rows = table.slice(number * each, each) if pair.in_order else table.take(part)
        parquet.write_table(rows, folder / f"{number}.parquet", row_group_size=1 << 16)


def noting(folder: str) -> Callable[[Any], Any]:
    """Return what wraps a task so that it notes its stage and its processor time."""

    def wrap(task: Any) -> Any:
        name = task.__qualname__.partition(".")[0]

        def run(batches: Any) -> Iterator[Any]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            begun = time.process_time()
            yield from task(batches)
            spent = time.process_time() - begun
            Path(folder, f"{name}-{context.taskAttemptId()}").write_text(str(spent))

        return run

    return wrap


def makespan(seconds: list[float], cores: int) -> float:
    """Compute how long tasks take on idle cores, the longest first."""
    loads = [0.0] * cores
    for one in sorted(seconds, reverse=True):
        loads[loads.index(min(loads))] += one
    return max(loads)


def jvm_seconds(pid: int) -> float:
    """Read the processor time of the JVM."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench(NamedTuple):
    """A session, the process of its JVM, and the folder of notes."""

    spark: Any
    pid: int
    notes: Path

    def seconds(self, pair: Pair, folder: Path, strategy: str | None) -> float:
        """Run a pair by a strategy; return its seconds."""
        for file in self.notes.iterdir():
            file.unlink()
        query = cepheid.query(pair.text)
        jvm, here = jvm_seconds(self.pid), time.process_time()
        with ExitStack() as stack:
            for module in (tasks, scan, frame_files):
                wrapped = noting(str(self.notes))
                stack.enter_context(mock.patch.object(module, "in_task", wrapped))
            if pair.files:
                result = query.run(f"{folder}/*.parquet", spark=self.spark, strategy=strategy)
            else:
                result = query.run(self.spark.read.parquet(str(folder)), strategy=strategy)
        result.agg({"count": "sum"}).collect()
        jvm, here = jvm_seconds(self.pid) - jvm, time.process_time() - here
        stages: dict[str, list[float]] = defaultdict(list)
        for file in self.notes.iterdir():
            stages[file.name.partition("-")[0]].append(float(file.read_text()))
        if READ_FILES in stages:
            # They run what sends events, and others only count keys.
            stages.pop("send_events", None)
        return here + jvm / CORES + sum(makespan(found, CORES) for found in stages.values())


def strategies_of(pair: Pair) -> tuple[str, ...]:
    """List the strategies that may run a pair."""
    return (*FRAMES, "scan slices") if pair.files else FRAMES


def measure(bench: Bench, pair: Pair, folder: Path) -> dict[str, float]:
    """Run a pair by every strategy that can run it, and by the chosen one; the least seconds."""
    found: dict[str, float] = {}
    wanted: list[str | None] = [*strategies_of(pair), None]
    for number in range(SHORT_RUNS):
        if number >= RUNS and min(found.values()) > SHORT_S:
            break
        # The JVM gets faster while it runs, so that a fixed order would favour the last.
        for strategy in wanted[::-1] if number % 2 else list(wanted):
            try:
                took = bench.seconds(pair, folder, strategy)
            except OptionError:
                wanted.remove(strategy)
                continue
            name = strategy or "chosen"
            found[name] = min(took, found.get(name, took))
    return found


class Told(logging.Handler):
    """Keeps what the choice of a strategy logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.last = ""
        log = logging.getLogger("cepheid")
        log.setLevel(logging.INFO)
        log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the last message."""
        self.last = record.getMessage()


def main() -> None:
    """Print a line for each pair, and the share of pairs within the bar."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--json", type=Path, help="a file that gets a line for each pair")
    asked = parser.parse_args()
    os.environ.setdefault("CEPHEID_KERNELS", "compile")
    os.environ["PYTHONWARNINGS"] = "ignore"
    tell, told = sys.stdout.write, Told()
    random = np.random.default_rng(asked.seed)
    ratios = []
    with tempfile.TemporaryDirectory(prefix="plans-") as name, session(f"local[{CORES}]") as spark:
        (Path(name) / "notes").mkdir()
        pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        bench = Bench(spark, pid, Path(name) / "notes")
        for number in range(-2, asked.pairs):
            pair = draw_pair(random)
            folder = Path(name) / str(number)
            write_events(folder, pair, random)
            if 0 <= number < asked.first:
                shutil.rmtree(folder)
                continue
            found = measure(bench, pair, folder)
            shutil.rmtree(folder)
            if number < 0:
                continue  # The JVM compiles.
            ratios.append(found["chosen"] / min(found.values()))
            tell(f"{ratios[-1]:5.2f} {pair} {found}\n")
            sys.stdout.flush()
            if asked.json:
                with asked.json.open("a") as file:
                    file.write(json.dumps([pair._asdict(), found, told.last]) + "\n")
    near = sum(ratio <= BAR for ratio in ratios)
    tell(f"within {BAR} x of the best: {near} of {len(ratios)} (bar: {SHARE:.0%})\n")


if __name__ == "__main__":
    main()
