"""The benchmarks one after the other: options in, tables, files and an exit status out."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from benchmarks import (
    bars,
    charts,
    edge_tables,
    edges,
    kleene_workloads,
    linear,
    match_chart,
    matches,
    situations,
    spark_suite,
    startup,
    store,
    workloads,
)
from benchmarks.measure import ROOT
from benchmarks.tasks import CLOCK_VARIABLE, Measurement
from rich.console import Console
from rich.table import Table

RESULTS = ROOT / ".benchmarks" / "linear.json"
EDGE_RESULTS = RESULTS.with_name("edges.json")
SPARK_RESULTS = EDGE_RESULTS.with_name("spark.json")
EVENTS_MAX = 100_000_000
QUICK_EVENTS_MAX = 100_000
LIMIT_S = 10.0
QUICK_LIMIT_S = 2.0
QUICK_SHRINK = 5


def main() -> int:
    """Run what the command line asks for; 1 if two methods disagree."""
    options = _options()
    console = Console()
    if options.only in (None, "startup"):
        console.print(_startup_table())
    if options.only == "charts":
        kept = [file.read_bytes() for file in (RESULTS, EDGE_RESULTS) if file.exists()]
        _draw(
            console, [m for text in kept for m in msgspec.json.decode(text, type=list[Measurement])]
        )
    status = 0
    if options.only in (None, "linear"):
        status |= _linear(options, console)
    if options.only in (None, "edges"):
        status |= _edges(options, console)
    if options.only in (None, "workloads"):
        status |= _workloads(options, console, workloads.run)
    if options.only in (None, "kleene-workloads"):
        status |= _workloads(options, console, kleene_workloads.run)
    if options.only in (None, "spark"):
        _spark(options, console)
    if options.only in (None, "matches"):
        _matches(options, console)
    if options.only in (None, "situations"):
        _situations(options, console)
    if options.only in (None, "store"):
        with console.status("store") as shown:
            shrink = 10 * QUICK_SHRINK if options.quick else 1
            tables = store.run(shrink=shrink, tell=shown.update, only=options.part)
        for table in tables:
            console.print(table)
    return status


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the benchmarks and print their figures.")
    parser.add_argument("--quick", action="store_true", help="small inputs, a minute or two")
    parser.add_argument(
        "--only",
        choices=(
            "linear",
            "edges",
            "workloads",
            "kleene-workloads",
            "spark",
            "matches",
            "situations",
            "store",
            "startup",
            "charts",
        ),
        help="one benchmark; `charts` draws the latest results again",
    )
    parser.add_argument(
        "--experiment",
        choices=[experiment.key for experiment in linear.EXPERIMENTS + edges.EXPERIMENTS]
        + ["bars", *edge_tables.KEYS],
        help="one experiment of `linear` or `edges`, or their bars",
    )
    parser.add_argument(
        "--cpu", action="store_true", help="count processor time, for a busy machine"
    )
    parser.add_argument(
        "--part",
        choices=[*"abcd", "drivers", "windows", "early", "adapts", "spark"],
        help="one part of `spark` or `store` (a letter) or of `situations`",
    )
    parser.add_argument("--events-max", type=int, help=f"the largest window ({EVENTS_MAX:,})")
    parser.add_argument("--limit", type=float, help=f"seconds per run ({LIMIT_S:g})")
    options = parser.parse_args()
    if options.cpu:
        os.environ[CLOCK_VARIABLE] = "cpu"
    options.events_max = options.events_max or (QUICK_EVENTS_MAX if options.quick else EVENTS_MAX)
    options.limit = options.limit or (QUICK_LIMIT_S if options.quick else LIMIT_S)
    return options


def _startup_table() -> Table:
    table = Table(title="Start-up and planning, medians of 15", title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for what, figure in startup.measure():
        table.add_row(what, figure)
    return table


def _spark(options: argparse.Namespace, console: Console) -> None:
    shrink = QUICK_SHRINK * 10 if options.quick else 1
    with console.status("spark") as status:
        tables, rates = spark_suite.run(shrink=shrink, only=options.part, tell=status.update)
    for table in tables:
        console.print(table)
    if options.quick:
        return
    # A run of one part keeps what is known of the others.
    kept = {}
    if SPARK_RESULTS.exists():
        known = msgspec.json.decode(SPARK_RESULTS.read_bytes(), type=list[spark_suite.Rate])
        kept = {(rate.part, rate.what): rate for rate in known}
    kept |= {(rate.part, rate.what): rate for rate in rates}
    SPARK_RESULTS.write_bytes(msgspec.json.encode(list(kept.values())))
    try:
        console.print(f"Chart: {charts.draw_rates(list(kept.values())).relative_to(ROOT)}")
    except ModuleNotFoundError:
        console.print(charts.MISSING)


def _situations(options: argparse.Namespace, console: Console) -> None:
    with console.status("situations") as status:
        tables, figures = situations.run(
            shrink=QUICK_SHRINK if options.quick else 1, only=options.part, tell=status.update
        )
    for table in tables:
        console.print(table)
    if any(figure.part == "disconnected" for figure in figures) and not options.quick:
        try:
            console.print(f"Chart: {charts.draw_windows(figures).relative_to(ROOT)}")
        except ModuleNotFoundError:
            console.print(charts.MISSING)


def _matches(options: argparse.Namespace, console: Console) -> None:
    with console.status("matches") as status:
        shrink = QUICK_SHRINK if options.quick else 1
        tables, grown = matches.run(shrink=shrink, tell=status.update)
    for table in tables:
        console.print(table)
    if options.quick:
        return
    try:
        console.print(f"Chart: {match_chart.draw_growth(grown).relative_to(ROOT)}")
    except ModuleNotFoundError:
        console.print(charts.MISSING)


def _workloads(
    options: argparse.Namespace, console: Console, run: Callable[..., tuple[Table, list[str]]]
) -> int:
    with console.status("workloads") as status:
        shrink = QUICK_SHRINK * 4 if options.quick else 1
        table, wrong = run(shrink=shrink, tell=status.update)
    console.print(table)
    for sentence in wrong:
        console.print(f"DIFFERENT ANSWERS: {sentence}", markup=False)
    return 1 if wrong else 0


def _linear(options: argparse.Namespace, console: Console) -> int:
    found = _experiments(linear.EXPERIMENTS, options, console)
    barred: list[Measurement] = []
    if options.experiment in (None, "bars"):
        with console.status("bars") as status:
            table, barred = bars.run(
                shrink=QUICK_SHRINK if options.quick else 1, tell=status.update
            )
        console.print(table)
    return _finish(found, barred, RESULTS, options, console)


def _edges(options: argparse.Namespace, console: Console) -> int:
    found = _experiments(edges.EXPERIMENTS, options, console)
    tabled: list[Measurement] = []
    shrink = 10 if options.quick else 1
    for key in edge_tables.KEYS:
        if options.experiment not in (None, key):
            continue
        with console.status(key) as status:
            table, measured = edge_tables.run(
                key, shrink=shrink, limit_s=options.limit, tell=status.update
            )
        console.print(table)
        tabled += measured
    return _finish(found, tabled, EDGE_RESULTS, options, console)


def _experiments(
    experiments: Sequence[linear.Experiment], options: argparse.Namespace, console: Console
) -> list[Measurement]:
    found: list[Measurement] = []
    for experiment in experiments:
        if options.experiment not in (None, experiment.key):
            continue
        with console.status(experiment.title) as status:
            measured = linear.run(
                experiment,
                events_max=options.events_max,
                limit_s=options.limit,
                tell=status.update,
            )
        found += measured
        console.print(linear.as_table(experiment, measured))
    return found


def _finish(
    found: list[Measurement],
    others: list[Measurement],
    results: Path,
    options: argparse.Namespace,
    console: Console,
) -> int:
    """Keep and draw what was found; return 1 if two methods disagree."""
    for reason in linear.failures(found + others):
        console.print(f"failed: {reason}", markup=False)
    if found and not options.quick and options.experiment is None:
        results.parent.mkdir(exist_ok=True)
        results.write_bytes(msgspec.json.encode(found))
        _draw(console, found)
    differences = list(linear.disagreements(found))
    for difference in differences:
        console.print(f"DIFFERENT ANSWERS: {difference}", markup=False)
    return 1 if differences else 0


def _draw(console: Console, found: list[Measurement]) -> None:
    try:
        files = charts.draw(found)
    except ModuleNotFoundError:
        console.print(charts.MISSING, markup=False)
    else:
        names = ", ".join(str(file.relative_to(ROOT)) for file in files)
        console.print(f"Charts: {names}")
