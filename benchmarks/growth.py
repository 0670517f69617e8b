"""How time grows on Spark, from 10^6 to 10^9 events and from 1 to 10^6 keys.

    python -m benchmarks.growth [--largest 1000000000] [--write]

Files of 2.5 million events lie in the order of time. Only ``DRAWN`` of them are drawn: the others
have the same types and keys at later times, so that 10^9 events are written within minutes. The
pattern is that of the Spark benchmark, by key in windows of ten minutes, a million events each;
its rows are dropped. Of up to 10^7 events the answer is compared with that of a
run in process. ``--write`` draws docs/img/bench-growth.png. The files take 3 GB and stay in
``.benchmarks``.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.charts import FOLDER as IMAGES
from benchmarks.charts import HEIGHT, SCALE, WIDTH
from benchmarks.measure import ROOT
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.spark_cases import WINDOWED
from benchmarks.spark_data import FILE_EVENTS, ROW_GROUP_EVENTS
from benchmarks.streams import STEP_US, uniform
from pyarrow import parquet

import cepheid
from cepheid.spark import session as spark_session

FOLDER = ROOT / ".benchmarks" / "growth"
DRAWN, KEYS = 4, 1_000
SIZES = tuple(10**power for power in range(6, 10))
KEY_COUNTS = tuple(10**power for power in range(7))
KEYED_EVENTS = 10_000_000
COMPARED = 10_000_000
"""Answers about so many events are compared with those in process."""

ROUNDS_EVENTS = 300_000_000
"""So many events in all rounds of a size: at least one round, at most five."""


class Grown(NamedTuple):
    """What a run took: the best round."""

    events: int
    keys: int
    clock_s: float
    cpu_s: float
    rows: int
    java_mb: float
    python_mb: float


def files_of(events: int, keys: int) -> Path:
    """Return a folder of Parquet files with so many events of so many keys."""
    folder = FOLDER / f"{events}-{keys}"
    if folder.exists():
        return folder
    every = FOLDER / f"files-{keys}"
    every.mkdir(parents=True, exist_ok=True)
    partial = folder.with_suffix(".new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    drawn: dict[int, pa.Table] = {}
    for number, begin in enumerate(range(0, events, FILE_EVENTS)):
        count = min(FILE_EVENTS, events - begin)
        path = every / f"{number:04}-{count}.parquet"
        if not path.exists():
            seed = number % DRAWN
            if seed not in drawn:
                drawn[seed] = _drawn(keys, seed)
            _write(drawn[seed].slice(0, count), begin * STEP_US, path)
        # Sizes share files: their directories have other names of them.
        os.link(path, partial / f"{number:04}.parquet")
    partial.rename(folder)
    return folder


def _drawn(keys: int, seed: int) -> pa.Table:
    table = uniform(FILE_EVENTS, key_count=keys, seed=seed).table()
    return table.set_column(1, "type", table["type"].cast(pa.string()))


def _write(table: pa.Table, later_us: int, path: Path) -> None:
    times = table["ts"].cast(pa.int64()).to_numpy() + np.int64(later_us)
    parquet.write_table(
        table.set_column(0, "ts", pa.array(times).view(pa.timestamp("us"))),
        path,
        row_group_size=ROW_GROUP_EVENTS,
        use_dictionary=["type", "key"],
        # As the other files of the benchmarks on Spark.
        column_encoding={"ts": "DELTA_BINARY_PACKED"},
    )


def measure(spark: Any, events: int, keys: int) -> Grown:
    """Run the query over all files of a folder."""
    folder = files_of(events, keys)
    rounds = min(max(ROUNDS_EVENTS // events, 1), 5)
    taken = []
    for _ in range(rounds):
        cpu, clock = cpu_seconds(), time.perf_counter()
        frame = cepheid.query(WINDOWED).run(str(folder), spark=spark)
        frame.write.format("noop").mode("overwrite").save()
        taken.append((time.perf_counter() - clock, cpu_seconds() - cpu))
    clock_s, cpu_s = min(taken)
    memory = (resident_bytes(name) / 2**20 for name in ("java", "python"))
    return Grown(events, keys, clock_s, cpu_s, _checked(spark, folder, events, keys), *memory)


def _checked(spark: Any, folder: Path, events: int, keys: int) -> int:
    """Compare with a run in process, or only count the rows of another run; return their number."""
    frame = cepheid.query(WINDOWED).run(str(folder), spark=spark)
    if max(events, 100 * keys) > COMPARED:
        return int(frame.count())
    found: pa.Table = frame.toArrow()
    ours: Any = cepheid.query(WINDOWED).run(f"{folder}/*.parquet")
    assert len(found) == len(ours), f"{len(found)} rows, and {len(ours)} in process"
    theirs = [float(pc.sum(one["bits"]).as_py() or 0) for one in (found, ours)]
    assert math.isclose(*theirs, rel_tol=1e-9), theirs
    return len(found)


def run(largest: int) -> Iterator[Grown]:
    """Measure all sizes and numbers of keys, in a session as ``cepheid run`` starts it."""
    with warnings.catch_warnings(), spark_session.session("local[2]", light=True) as spark:
        warnings.simplefilter("ignore")
        measure(spark, SIZES[0], KEYS)  # Workers start, and kernels are loaded.
        for events in SIZES:
            if events <= largest:
                yield measure(spark, events, KEYS)
        for keys in KEY_COUNTS:
            yield measure(spark, KEYED_EVENTS, keys)


def draw(found: list[Grown]) -> None:
    """Draw the time of sizes, and the rate of numbers of keys, on logarithmic axes."""
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    grown, keyed = found[: len(found) - len(KEY_COUNTS)], found[-len(KEY_COUNTS) :]
    panels = (
        (grown, "events", "clock_s", "events of 1,000 keys", "time (s)"),
        (keyed, "keys", "rate", "keys of ten million events", "million events a second"),
    )
    log = altair.Scale(type="log", nice=False)
    charts = []
    for rows, x, y, below, beside in panels:
        values = [one._asdict() | {"rate": one.events / one.clock_s / 1e6} for one in rows]
        chart = altair.Chart(altair.InlineData(values=values), width=WIDTH, height=HEIGHT)
        axis = altair.Axis(format="~s", tickCount=8)
        charts.append(
            chart.mark_line(point=True, color="#0b6e4f").encode(
                x=altair.X(f"{x}:Q", title=below, scale=log, axis=axis),
                y=altair.Y(f"{y}:Q", title=beside, scale=altair.Scale(type="log")),
            )
        )
    whole = altair.hconcat(*charts, title="(SEQ(A+, B))+ by key on Spark, two cores")
    whole.configure(background="white").save(IMAGES / "bench-growth.png", scale_factor=SCALE)


def main() -> None:
    """Print a line for each size and number of keys."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--write", action="store_true", help="draw the chart of the documentation")
    asked = parser.parse_args()
    for events in SIZES:
        if events <= asked.largest:
            files_of(events, KEYS)
    for keys in KEY_COUNTS:
        files_of(KEYED_EVENTS, keys)
    print("| events | keys | s | CPU s | M events/s | rows | Java MB | Python MB |")
    print("|---" * 8 + "|")
    found = []
    for one in run(asked.largest):
        found.append(one)
        print(
            f"| {one.events:,} | {one.keys:,} | {one.clock_s:.2f} | {one.cpu_s:.2f} "
            f"| {one.events / one.clock_s / 1e6:.1f} | {one.rows:,} | {one.java_mb:.0f} "
            f"| {one.python_mb:.0f} |",
            flush=True,
        )
    if asked.write:
        draw(found)


if __name__ == "__main__":
    main()
