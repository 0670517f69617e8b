"""Sweeps, changes, surveys and discovery: every bar, and three charts.

python -m benchmarks.beyond [--quick] [--out FOLDER] [--spark] [--log FILE --key COLUMN]

``--quick`` takes a tenth of the events and a minute or two. CPU time in this process, the best of
several runs; on Spark, clock time and the CPU time of all processes. ``--log`` is an event log for
discovery, such as that of the BPI Challenge 2012. Lines that miss their bar come first. The charts,
over the bundled trades, are written to FOLDER.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from benchmarks import changes, discover, surveys, sweep

import cepheid
from cepheid.kernels.tiers import Tier, forced

VALUES = 100
"""Values of a sweep between neighbours, which has no bar."""
EDGE = (
    "RETURN k, COUNT(*) PATTERN A+ WHERE [k] AND A.x > NEXT(A).x + {x} GROUP-BY k "
    "WITHIN {window} seconds SLIDE {window} seconds"
)
SURVEYED = 1_000_000
"""Events of one window of falling trends: the bars are for 2^1000 matches or more."""


class Line(NamedTuple):
    """A measurement, and its bar: at most so many times, or at least so many a second."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    least: bool = False

    @property
    def kept(self) -> float:
        """Compute by how much the bar is kept; below 1 it is missed."""
        if self.bar is None:
            return float("inf")
        return self.value / self.bar if self.least else self.bar / self.value

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"  bar {self.bar:,g}"
        verdict = "" if self.bar is None else "  kept" if self.kept >= 1 else "  MISSED"
        return f"{self.what:<44} {self.value:>14,.1f} {self.unit:<12}{bar}{verdict}"


def sweeps(count: int) -> Iterator[Line]:
    """Measure all values of one threshold, a grid, and values between neighbours."""
    table = sweep.events(count)
    window = max(count * sweep.STEP_US // 10 // 1_000_000, 1)
    more = f"SWEEP x (0 TO {(VALUES - 1) / 1000} STEP 0.001)"
    cases = {**sweep.CASES, f"{VALUES} values between neighbours": (EDGE, more, "", None)}
    for name, (text, x, y, bar) in cases.items():
        one = cepheid.query(sweep.filled(text, window, x=0.05, y=0.5))
        every = cepheid.query(sweep.filled(text, window, x=x, y=y))
        alone = sweep.cpu_seconds(partial(one.run, table))
        whole = sweep.cpu_seconds(partial(every.run, table), 1)
        if not sweep.agree(every.run(table), table, text, window):
            message = f"{name}: a value differs from its own run"
            raise SystemExit(message)
        yield Line(f"sweep, {name}", whole / alone, "x one run", bar)


def tables(count: int, *, spark: bool) -> Iterator[Line]:
    """Measure live queries over tables that change."""
    table, batch = changes.changelog(count), max(count // 10, 1)
    for name, text in changes.REPAIRED.items():
        clock, cpu, told = changes.in_process(text, table, batch)
        changes.check(text, table, told)
        bar = changes.BARS["in process"]
        yield Line(f"changes, {name}", count / clock, "changes/s", bar, least=True)
        yield Line(f"changes, {name}, by CPU", count / cpu, "changes/CPU s", bar, least=True)
    if spark:
        text = changes.REPAIRED["windows by key"]
        with tempfile.TemporaryDirectory() as folder:
            clock, cpu, told = changes.on_spark(text, table, batch, Path(folder))
        changes.check(text, table, told)
        bar = changes.BARS["Spark"]
        yield Line("changes on Spark, windows by key", count / clock, "changes/s", bar, least=True)
        yield Line("changes on Spark, by CPU time", count / cpu, "changes/CPU s")


def never_built() -> Iterator[Line]:
    """Measure surveys of falling trends beside COUNT(*)."""
    events = surveys.table_of(SURVEYED)
    pattern, asked = surveys.CASES["one window"]
    base = surveys.least_cpu_s(f"RETURN COUNT(*) {pattern}", events, 3)
    for survey in asked:
        took = surveys.least_cpu_s(f"RETURN {survey} {pattern}", events, 3)
        yield Line(f"survey, {survey}", took / base, "x COUNT(*)", surveys.BARS.get(survey))


def discovery(log: str, key: str) -> Iterator[Line]:
    """Measure the forms of Declare, then deadlines and sequences too."""
    counts, took = min((discover.ours(log, key) for _ in range(3)), key=lambda one: one[1])
    rules = sum(map(len, counts.values()))
    yield Line(f"discover, {rules:,} rules of Declare", took, "s", 1)
    search = cepheid.discover(log, key=key).search
    yield Line(f"discover, {search.candidates:,} candidates", search.seconds, "s", 60)


# Charts ------------------------------------------------------------------------------------------


ALERTS = """RETURN symbol, COUNT(*) AS runs PATTERN trade T{{3,}} WHERE [symbol] AND {condition}
    GROUP-BY symbol WITHIN 10 minutes SLIDE 10 minutes"""
LIMIT = "T.volume >= SWEEP limit (100 TO 20000 STEP 100)"
LIMITS = (
    "T.volume >= SWEEP limit (500 TO 10000 STEP 500) AND T.price >= SWEEP least (20 TO 180 STEP 10)"
)
FALLING = """RETURN BLAME() PATTERN trade T+ WHERE [symbol] AND T.price >= NEXT(T).price
    GROUP-BY symbol TIES arrival"""


def draw(folder: Path) -> list[Path]:
    """Draw a sweep, a grid and the blame of events, over the bundled trades."""
    trades = pq.read_table(str(files("cepheid") / "data" / "trades.parquet"))
    spy = trades.filter(pc.field("symbol") == "SPY")
    drawn = {
        "sweep": cepheid.query(ALERTS.format(condition=LIMIT)).show(trades).chart(),
        "grid": cepheid.query(ALERTS.format(condition=LIMITS)).show(trades).chart(),
        "blame": cepheid.query(FALLING).show(spy).timeline(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in drawn.items():
        picture.save(folder / f"{name}.svg")
    return [folder / f"{name}.svg" for name in drawn]


def main() -> None:
    """Measure, print what misses its bar first, and draw."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--events", type=int, default=1_000_000)
    words.add_argument("--quick", action="store_true")
    words.add_argument("--out", type=Path, default=Path("build/beyond"))
    words.add_argument("--spark", action="store_true")
    words.add_argument("--log")
    words.add_argument("--key", default="case_id")
    asked = words.parse_args()
    count = asked.events // 10 if asked.quick else asked.events
    for path in draw(asked.out):
        print(f"wrote {path}", flush=True)
    lines: list[Line] = []
    # Kernels that compile in the background would be measured while they are interpreted.
    with warnings.catch_warnings(), forced(Tier.COMPILE):
        warnings.simplefilter("ignore")
        measured = [
            sweeps(count),
            tables(2 * count, spark=asked.spark),
            never_built(),
        ]
        measured += [discovery(asked.log, asked.key)] if asked.log else []
        for some in measured:
            for line in some:
                print(line, flush=True)
                lines.append(line)
    missed = sorted((line for line in lines if line.kept < 1), key=lambda line: line.kept)
    print(f"\n{len(missed)} of {sum(line.bar is not None for line in lines)} bars are missed")
    for line in missed:
        print(line)


if __name__ == "__main__":
    main()
