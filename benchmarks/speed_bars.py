"""All bars of speed in one run: ``python -m benchmarks.speed_bars [--quick] [--only POINT,...]``.

Measures in process (files, tables, keys, sliding and trailing windows, edge predicates, matches),
live in process, in a store and on Spark, and prints a line for every bar, lost ones first: the
figure by processor time and by the clock, the bar, and where the time goes. On a busy machine the
clock measures the other work too, so processor time decides: a rate of the bar's two cores is
compared with twice the rate of one processor second, which is what two idle cores would give at
best. ``--quick`` takes smaller streams and one round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from benchmarks import speed

ROOT = Path(__file__).resolve().parents[1]


class Figure(NamedTuple):
    """What was measured for a bar: by processor time, by the clock, and where the time goes."""

    cpu: float
    clock: float
    where: str = ""


class Bar(NamedTuple):
    """A bar: ``least`` is to be reached, or not to be passed where ``most`` is set."""

    point: int
    what: str
    bar: float
    unit: str = "M/s"
    cores: int = 2
    most: bool = False

    def ratio(self, figure: Figure) -> float:
        """Divide the figure by the bar, so that 1 and more meets it."""
        if self.most:
            return self.bar / figure.cpu
        return figure.cpu * (self.cores if self.unit == "M/s" else 1) / self.bar


Found = Iterator[tuple[Bar, Figure]]


class Settings(NamedTuple):
    """How large the streams are, and how often each query runs."""

    scale: float
    rounds: int


def _rows(names: tuple[str, ...], settings: Settings) -> dict[str, dict[str, Any]]:
    """Measure some cases of ``benchmarks.speed``, each in processes of its own."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "events.parquet")
            if speed.CASES[name].source == "file":
                table = speed.events_of(speed.CASES[name], settings.scale)
                pq.write_table(table, file, row_group_size=1 << 20)
            ran = [
                speed.run_child(name, ROOT / "src", settings.scale, file)
                for _ in range(settings.rounds)
            ]
        found[name] = min(ran, key=lambda one: float(one["cpu_s"]))
    return found


def _rate(row: dict[str, Any]) -> Figure:
    """Return the rate of a case, and its shares."""
    shares = ", ".join(f"{stage} {100 * s:.0f} %" for stage, s in row["shares"].items() if s > 0.04)
    events = row["events"] / 1e6
    return Figure(events / row["cpu_s"], events / row["clock_s"], shares)


RATES = (
    (Bar(1, "SEQ(A+, B) by key, 10 s, file", 50), "plus"),
    (Bar(1, "SEQ(A, B, C) by key, 10 s, file", 50), "seq"),
    (Bar(1, "SEQ(A+, B) by key, 10 s, table", 120), "plus-table"),
    (Bar(1, "SEQ(A, B, C) by key, 10 s, table", 120), "seq-table"),
    (Bar(3, "SEQ(A, B, C) by key, 10 s by 1 s, file", 12), "sliding"),
    (Bar(3, "SEQ(A, B, C) by key, trailing 1 s, file", 5), "trailing"),
    (Bar(3, "SEQ(A, B, C) by key, trailing 10 s, file", 5), "trailing-10s"),
    (Bar(3, "SEQ(A, B, C) trailing, 100 starts (half of A-Seq)", 9.8, cores=1), "starts-100"),
    (Bar(5, "SEQ(A, B, C) next, matches listed, file", 8), "matches"),
)  # fmt: skip


def in_process(settings: Settings) -> Found:
    """Measure files, tables, windows, keys and matches."""
    names = (*(name for _, name in RATES), "keys-1e3", "keys-1e6", "panes-1", "panes-100", "runs")
    rows = _rows((*names, "small", "falling", "falling-avg"), settings)
    for bar, name in RATES:
        yield bar, _rate(rows[name])
    few, many = _rate(rows["keys-1e3"]), _rate(rows["keys-1e6"])
    keys = Figure(many.cpu / few.cpu, many.clock / few.clock, many.where)
    yield Bar(3, "10^6 keys against 10^3 keys, speed", 0.25, "x"), keys
    one, hundred = rows["panes-1"], rows["panes-100"]
    ratio = Figure(hundred["cpu_s"] / one["cpu_s"], hundred["clock_s"] / one["clock_s"])
    yield Bar(3, "100 panes of 10 events against one vector, time", 4, "x", most=True), ratio
    runs = rows["runs"]["cpu_s"] / rows["runs"]["beside_s"]
    yield (
        Bar(5, "contiguous runs against MATCH_RECOGNIZE, time", 2, "x", most=True),
        Figure(runs, runs),
    )
    for name in ("falling", "falling-avg"):
        yield Bar(4, f"{name} A+ by key, 10 s, file", 5), _rate(rows[name])
    small = rows["small"]
    yield (
        Bar(2, "a call over 100 events", 150, "us", most=True),
        Figure(1e6 * small["cpu_s"], 1e6 * small["clock_s"]),
    )


def _child(name: str, settings: Settings) -> list[list[Any]]:
    """Run the bars of another module in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed_bars_runs", name, str(settings.scale)]
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[[")]
    if not lines:
        print(f"{name}: {done.stderr.strip()[-400:]}")
        return []
    return list(json.loads(lines[-1]))


def _of_child(name: str) -> Callable[[Settings], Found]:
    def measure(settings: Settings) -> Found:
        for bar, figure in _child(name, settings):
            yield Bar(*bar), Figure(*figure)

    return measure


PARTS: dict[str, Callable[[Settings], Found]] = {
    "process": in_process,
    "edges": _of_child("edges"),
    "live": _of_child("live"),
    "store": _of_child("store"),
    "spark": _of_child("spark"),
}
"""All parts by name."""


def tell(found: list[tuple[Bar, Figure]]) -> None:
    """Print a table, lost bars first and those of the worst ratio before them."""
    print("| | bar | figure, CPU | clock | bar | of the bar | where the time goes |")
    print("|---|---|---|---|---|---|---|")
    for bar, figure in sorted(found, key=lambda one: one[0].ratio(one[1])):
        verdict = "met" if bar.ratio(figure) >= 1 else "**missed**"
        sign = "<=" if bar.most else ">="
        cores = " on two cores" if bar.unit == "M/s" and bar.cores == 2 else ""
        print(
            f"| {verdict} | {bar.point}: {bar.what} | {figure.cpu:.3g} {bar.unit} "
            f"| {figure.clock:.3g} | {sign} {bar.bar:g} {bar.unit}{cores} "
            f"| {bar.ratio(figure):.2f} | {figure.where} |"
        )


def main() -> None:
    """Measure the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller streams, one round")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts")
    options = parser.parse_args()
    settings = Settings(0.1, 1) if options.quick else Settings(1.0, 3)
    found = []
    for name in options.only.split(","):
        for bar, figure in PARTS[name](settings):
            print(f"{bar.what}: {figure.cpu:.3g} {bar.unit}", file=sys.stderr, flush=True)
            found.append((bar, figure))
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, scale {settings.scale:g}")
    tell(found)


if __name__ == "__main__":
    main()
