"""Run drawn rules on a live stream of Spark, and measure the CPU time of all its processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet

from cepheid.interfaces.rule_queries import EventColumns, ready_rules
from cepheid.interfaces.rules import stamp_of
from cepheid.interfaces.stream_command import live_session
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_rules import Rulebook, Source, stream_rules_in

TICKS = os.sysconf("SC_CLK_TCK")
WARM = 2
"""Micro-batches before the measurement: code is compiled, and states are made."""


class Spent(NamedTuple):
    """CPU seconds of the JVM, of the Python workers, and of the driver, and the clock."""

    jvm: float
    workers: float
    driver: float
    clock: float

    @property
    def cpu(self) -> float:
        """Add up the CPU seconds."""
        return self.jvm + self.workers + self.driver

    def since(self, before: Spent) -> Spent:
        """Subtract what was spent before."""
        return Spent(*(mine - theirs for mine, theirs in zip(self, before, strict=True)))


def spent() -> Spent:
    """Measure this process and all below it."""
    own, times = {os.getpid()}, {}
    parents: dict[int, int] = {}
    java: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_bytes().rpartition(b")")
            except OSError:
                continue
            fields = rest.split()
            if name.endswith(b"(java"):
                java.add(int(entry.name))
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15]))
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in own} - own
        own, grown = own | more, bool(more)
    driver = times[os.getpid()]
    jvm = sum(times[pid] for pid in own & java)
    workers = sum(times.get(pid, 0) for pid in own) - driver - jvm
    return Spent(jvm / TICKS, workers / TICKS, driver / TICKS, time.monotonic())


def run(
    rules: dict[str, str], events: pa.Table, batch: int, folder: Path
) -> tuple[Spent, int, int]:
    """Return the time, events and rows after the first micro-batches."""
    (folder / "rules").mkdir()
    (folder / "events").mkdir()
    for name, text in rules.items():
        (folder / "rules" / f"{name}.cq").write_text(text)
    for number, start in enumerate(range(0, len(events), batch)):
        file = folder / "events" / f"{number:04}.parquet"
        parquet.write_table(events.slice(start, batch), file)
        os.utime(file, (number + 1, number + 1))
    place = folder / "rules"
    source = Source(lambda: ready_rules(place, EventColumns()), lambda: stamp_of(place))
    options = Options(
        str(folder / "events"),
        str(folder / "rows"),
        folder / "state",
        "0 seconds",
        once=True,
        files=1,
        master="local[2]",
        buckets=2,
        times=source.read().workload.times,
    )
    marks: list[Spent] = []

    def watch() -> None:
        commits = folder / "state" / "commits"
        while not (commits / str(WARM - 1)).exists():
            time.sleep(0.05)
        marks.append(spent())

    threading.Thread(target=watch, daemon=True).start()
    with live_session(options) as spark:
        stream_rules_in(spark, Rulebook(source, print), options, print)
        marks.append(spent())
        rows = spark.read.parquet(str(folder / "rows")).count()
    before, after = marks
    return after.since(before), len(events) - WARM * batch, rows
