"""All bars of speed in one run: ``python -m benchmarks.speed_bars [--quick] [--only PART,...]``.

Measures in process (files, tables, keys, sliding and trailing windows, edge predicates, matches),
live in process, in a store and on Spark, and prints a line for every bar, lost ones first: the
figure by the clock and by processor time, the bar, and where the time goes. The clock decides, so
the machine has to be quiet, and a bar on two cores is one that two cores have to reach; processor
time decides about bars on one core. ``--quick`` takes smaller streams and one round, but all events
where fewer would be other work. Figures are kept in ``build/speed_bars.json``: a run of some parts
replaces theirs, and prints all. ``CEPHEID_KERNELS=compile`` compiles small inputs, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from benchmarks import speed

ROOT = Path(__file__).resolve().parents[1]


KEPT = ROOT / "build" / "speed_bars.json"


class Figure(NamedTuple):
    """What was measured for a bar: by processor time, by the clock, and where the time goes."""

    cpu: float
    clock: float
    where: str = ""


class Bar(NamedTuple):
    """A bar, to be reached, or not to be passed where ``most`` is set.

    With one core, processor time is compared with it, else the clock.
    """

    point: int
    what: str
    bar: float
    unit: str = "M/s"
    cores: int = 2
    most: bool = False

    def ratio(self, figure: Figure) -> float:
        """Divide the figure by the bar, so that 1 and more meets it."""
        found = figure.cpu if self.cores == 1 else figure.clock
        return self.bar / found if self.most else found / self.bar


Found = Iterator[tuple[Bar, Figure]]


class Settings(NamedTuple):
    """How large the streams are, and how often each query runs."""

    scale: float
    rounds: int


def _rows(names: Iterable[str], settings: Settings) -> dict[str, dict[str, Any]]:
    """Measure some cases of ``benchmarks.speed``, each in processes of its own."""
    found = {}
    for name in names:
        scale = 1.0 if name in WHOLE else settings.scale
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "events.parquet")
            if speed.CASES[name].source == "file":
                table = speed.events_of(speed.CASES[name], scale)
                pq.write_table(table, file, row_group_size=1 << 20)
            ran = [speed.run_child(name, ROOT / "src", scale, file) for _ in range(settings.rounds)]
        found[name] = min(ran, key=lambda one: float(one["clock_s"]))
    return found


def _rate(row: dict[str, Any]) -> Figure:
    """Return the rate of a case, and its shares."""
    shares = ", ".join(f"{stage} {100 * s:.0f} %" for stage, s in row["shares"].items() if s > 0.04)
    events = row["events"] / 1e6
    return Figure(events / row["cpu_s"], events / row["clock_s"], shares)


def _against(one: dict[str, Any], other: dict[str, Any], where: str = "") -> Figure:
    """Return how many times as long a case takes as another."""
    return Figure(one["cpu_s"] / other["cpu_s"], one["clock_s"] / other["clock_s"], where)


FILES = (
    (Bar(1, "SEQ(A+, B) by key, 10 s, file", 50), "plus"),
    (Bar(1, "SEQ(A, B, C) by key, 10 s, file", 50), "seq"),
    (Bar(1, "SEQ(A+, B) by key, 10 s, table", 120), "plus-table"),
    (Bar(1, "SEQ(A, B, C) by key, 10 s, table", 120), "seq-table"),
)
WINDOWS = (
    (Bar(3, "SEQ(A, B, C) by key, 10 s by 1 s, file", 12), "sliding"),
    (Bar(3, "SEQ(A, B, C) by key, trailing 1 s, file", 5), "trailing"),
    (Bar(3, "SEQ(A, B, C) by key, trailing 10 s, file", 5), "trailing-10s"),
)
LISTS = (
    (Bar(5, "SEQ(A, B, C) next, matches listed, file", 8), "matches"),
    (Bar(4, "falling A+ by key, 10 s, file", 5), "falling"),
    (Bar(4, "falling A+ by key with AVG, 10 s, file", 5), "falling-avg"),
)
STARTS = (1, 10, 100, 1_000, 10_000)
WHOLE = {"sliding", "trailing", "trailing-10s", *(f"starts-{starts}" for starts in STARTS)}
"""Cases of which a tenth of the events would tell little."""


def _rates(bars: Iterable[tuple[Bar, str]], settings: Settings) -> Found:
    for bar, name in bars:
        yield bar, _rate(_rows([name], settings)[name])


def files(settings: Settings) -> Found:
    """Measure files and tables."""
    return _rates(FILES, settings)


def keys(settings: Settings) -> Found:
    """Measure how the speed falls with the number of keys."""
    rows = _rows(("keys-1e3", "keys-1e6"), settings)
    few, many = _rate(rows["keys-1e3"]), _rate(rows["keys-1e6"])
    found = Figure(many.cpu / few.cpu, many.clock / few.clock, many.where)
    yield Bar(3, "10^6 keys against 10^3 keys, speed", 0.25, "x"), found


def windows(settings: Settings) -> Found:
    """Measure sliding and trailing windows, the latter beside A-Seq's counters."""
    yield from _rates(WINDOWS, settings)
    for starts in STARTS:
        row = _rows([f"starts-{starts}"], settings)[f"starts-{starts}"]
        mine = _rate(row)
        theirs = row["events"] / row["beside_s"] / 1e6
        where = f"{mine.cpu:.3g} against {theirs:.3g} M/s; {mine.where}"
        figure = Figure(mine.cpu / theirs, row["beside_clock_s"] / row["clock_s"], where)
        what = f"SEQ(A, B, C) trailing, {starts:,} starts, speed against A-Seq's counters"
        yield Bar(3, what, 0.5, "x", cores=1), figure
    rows = _rows(("panes-1", "panes-100"), settings)
    what = "100 panes of 10 events against one vector, time"
    yield Bar(3, what, 4, "x", most=True), _against(rows["panes-100"], rows["panes-1"])


def lists(settings: Settings) -> Found:
    """Measure lists of matches and falling trends."""
    yield from _rates(LISTS, settings)
    runs = _rows(["runs"], settings)["runs"]
    sql = {"cpu_s": runs["beside_s"], "clock_s": runs["beside_clock_s"]}
    what = "contiguous runs against MATCH_RECOGNIZE, time"
    yield Bar(5, what, 2, "x", most=True), _against(runs, sql)


def calls(settings: Settings) -> Found:
    """Measure calls of a compiled query over next to nothing: what comes before the first event."""
    rows = _rows(("none", "one", "small"), settings)
    where = f"a call over 100 events {1e6 * rows['small']['clock_s']:.0f} us"
    for name, what in (("none", "no event"), ("one", "one event")):
        row = rows[name]
        figure = Figure(1e6 * row["cpu_s"], 1e6 * row["clock_s"], where)
        yield Bar(2, f"a call over {what}", 150, "us", most=True), figure


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


IN_PROCESS: dict[str, Callable[[Settings], Found]] = {
    "files": files,
    "keys": keys,
    "windows": windows,
    "lists": lists,
    "calls": calls,
}
"""The parts that ``process`` stands for."""

PARTS: dict[str, Callable[[Settings], Found]] = {
    **IN_PROCESS,
    "edges": _of_child("edges"),
    "live": _of_child("live"),
    "store": _of_child("store"),
    "spark": _of_child("spark"),
    "spark-rows": _of_child("spark-rows"),
    "spark-live": _of_child("spark-live"),
    "spark-live-rows": _of_child("spark-live-rows"),
}
"""All parts by name."""


def tell(found: list[tuple[Bar, Figure]]) -> None:
    """Print a table, lost bars first and those of the worst ratio before them."""
    print("| | bar | clock | CPU | bar | of the bar | where the time goes |")
    print("|---|---|---|---|---|---|---|")
    for bar, figure in sorted(found, key=lambda one: one[0].ratio(one[1])):
        verdict = "met" if bar.ratio(figure) >= 1 else "**missed**"
        sign = "<=" if bar.most else ">="
        cores = f" on {('one core', 'two cores')[bar.cores - 1]}" if bar.unit == "M/s" else ""
        print(
            f"| {verdict} | {bar.point}: {bar.what} | {figure.clock:.3g} {bar.unit} "
            f"| {figure.cpu:.3g} | {sign} {bar.bar:g} {bar.unit}{cores} "
            f"| {bar.ratio(figure):.2f} | {figure.where} |"
        )


def _kept(found: dict[str, list[tuple[Bar, Figure]]], scale: float) -> dict[str, Any]:
    """Put the figures of parts in place of those that were measured before, and keep all."""
    before: dict[str, Any] = {}
    if KEPT.exists():
        before = json.loads(KEPT.read_text("utf-8"))
    parts = before["parts"] if before.get("scale") == scale else {}
    every = {"scale": scale, "parts": parts | found}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(every), "utf-8")
    return every


def main() -> None:
    """Measure the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller streams, one round")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts")
    options = parser.parse_args()
    settings = Settings(0.1, 1) if options.quick else Settings(1.0, 3)
    names = options.only.replace("process", ",".join(IN_PROCESS)).split(",")
    found: dict[str, list[tuple[Bar, Figure]]] = {}
    every = _kept(found, settings.scale)
    for name in names:
        for bar, figure in PARTS[name](settings):
            print(f"{bar.what}: {figure.clock:.3g} {bar.unit}", file=sys.stderr, flush=True)
            found.setdefault(name, []).append((bar, figure))
        every = _kept(found, settings.scale)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, scale {settings.scale:g}")
    tell([(Bar(*b), Figure(*f)) for part in every["parts"].values() for b, f in part])


if __name__ == "__main__":
    main()
