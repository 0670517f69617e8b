"""How fast queries are from a file or a table to the answer, and where the time goes.

    python -m benchmarks.speed [--only NAME,...] [--scale 0.1] [--against SRC] [--rounds 3]

Prints a line for every query: CPU seconds, the time on the wall, million events a second of CPU
time, and the shares of reading, encoding, kernels and the rest, which is Python. With ``--against``
(the ``src`` folder of another commit) both versions run in turn, so that a busy machine disturbs
both; the best round of each counts. Each round runs in a process of its own, which runs the query
once to load what it needs and then twice with the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks import streams
from benchmarks.baselines import aseq
from benchmarks.speed_stages import Stages

import cepheid

ROOT = Path(__file__).resolve().parents[1]
KEYED = "RETURN key, COUNT(*) PATTERN {} WHERE [key]{} GROUP-BY key {}"
TEN_SECONDS = "WITHIN 10 seconds SLIDE 10 seconds"
TEN_MINUTES = "WITHIN 10 minutes SLIDE 10 minutes"
FALLS = " AND A.price > NEXT(A).price"
RUNS = """
    RETURN key, s.price, d.price PATTERN SEQ(ANY u, ANY s, ANY d+, ANY e) SEMANTICS contiguous
    WHERE [key] AND u.price <= s.price AND s.price > d.price AND d.price > NEXT(d).price
      AND d.price <= e.price"""
RUNS_SQL = """
    SELECT key, p0, p1 FROM events MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY ts MEASURES S.price AS p0, LAST(D.price) AS p1
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST D
        PATTERN (S D+ U) DEFINE D AS price < PREV(price), U AS price >= PREV(price)
    )"""
"""Falling runs; those in our language begin after an event that is not above them."""
NEXT = "RETURN MATCHES PATTERN SEQ(A, B, C) SEMANTICS skip-till-next-match WHERE [key] "


class Case(NamedTuple):
    """A query, its events, how they come, and what runs beside it.

    That is SQL for the same, or A-Seq's counters over windows of ``counted_us`` without SLIDE.
    """

    query: str
    event_count: int = 5_000_000
    key_count: int = 1_000
    source: str = "file"
    beside: str = ""
    counted_us: int = 0


CASES = {
    "plus": Case(KEYED.format("SEQ(A+, B)", "", TEN_SECONDS)),
    "seq": Case(KEYED.format("SEQ(A, B, C)", "", TEN_SECONDS)),
    "sliding": Case(KEYED.format("SEQ(A, B, C)", "", "WITHIN 10 seconds SLIDE 1 second")),
    "trailing": Case(KEYED.format("SEQ(A, B, C)", "", "WITHIN 1 second"), 1_000_000),
    "trailing-10s": Case(KEYED.format("SEQ(A, B, C)", "", "WITHIN 10 seconds"), 1_000_000),
    "falling": Case(KEYED.format("A+", FALLS, TEN_SECONDS)),
    "falling-avg": Case(KEYED.replace("COUNT(*)", "AVG(A.price)").format("A+", FALLS, TEN_SECONDS)),
    "matches": Case(NEXT + TEN_SECONDS),
    "runs": Case(RUNS, source="table", beside=RUNS_SQL),
    **{
        f"keys-1e{n}": Case(KEYED.format("SEQ(A+, B)", "", TEN_MINUTES), 10_000_000, 10**n, "table")
        for n in range(7)
    },
    "plus-table": Case(KEYED.format("SEQ(A+, B)", "", TEN_SECONDS), source="table"),
    "seq-table": Case(KEYED.format("SEQ(A, B, C)", "", TEN_SECONDS), source="table"),
    **{
        f"starts-{starts}": Case(
            f"RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN {3 * starts * streams.STEP_US} us",
            400_000,
            0,
            "table",
            counted_us=3 * starts * streams.STEP_US,
        )
        for starts in (1, 10, 100, 1_000, 10_000)
    },
    **{
        f"panes-{panes}": Case(
            "RETURN COUNT(*), SUM(A.price), MIN(A.price) PATTERN SEQ(A, B) "
            f"WITHIN 600 ms SLIDE {600 // panes} ms",
            1_000_000,
            0,
            "table",
        )
        for panes in (1, 10, 100)
    },
    **{
        name: Case(KEYED.format("SEQ(A+, B)", "", TEN_SECONDS), events, 10, "table")
        for name, events in (("none", 0), ("one", 1), ("small", 100))
    },
}
"""All queries by name; the first rows are those of one Parquet file with 1,000 keys."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(CASES[options.child], options.scale, options.file)))
        return
    sources = {"now": ROOT / "src"}
    if options.against is not None:
        sources = {"before": options.against, **sources}
    stages = "".join(f"{name:>9}" for name in Stages.names)
    print(f"{'':14}{'':8}{'CPU s':>8}{'clock s':>8}{'M/s CPU':>9}{stages}{'rows':>10}")
    for name in options.only.split(","):
        compare(name, sources, options.scale, options.rounds)


def compare(name: str, sources: dict[str, Path], scale: float, rounds: int) -> None:
    """Run one query with every version in turn, and print the best round of each."""
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in sources}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "events.parquet")
        if CASES[name].source == "file":
            pq.write_table(events_of(CASES[name], scale), file, row_group_size=1 << 20)
        for _ in range(rounds):
            for label, source in sources.items():
                found[label].append(run_child(name, source, scale, file))
    answers = {one["check"] for ran in found.values() for one in ran}
    for label, ran in found.items():
        best = min(ran, key=lambda one: float(one["cpu_s"]))
        rate = best["events"] / best["cpu_s"] / 1e6
        beside = f"  {best['cpu_s'] / best['beside_s']:.1f} x beside" if best["beside_s"] else ""
        shares = "".join(f"{100 * best['shares'][stage]:8.0f}%" for stage in Stages.names)
        print(
            f"{name:14}{label:8}{best['cpu_s']:8.3f}{best['clock_s']:8.3f}{rate:9.2f}"
            f"{shares}{best['rows']:10,}{'  DIFFERENT' if len(answers) > 1 else ''}{beside}",
            flush=True,
        )


def run_child(name: str, source: Path, scale: float, file: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed", "--child", name]
    command += ["--scale", str(scale), "--file", file]
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def events_of(case: Case, scale: float) -> pa.Table:
    """Make the events of a case; types in files are text, as in other systems' files."""
    count = max(1, int(case.event_count * scale)) if case.event_count > 1_000 else case.event_count
    # A stream without events would have no columns.
    stream = streams.uniform(max(count, 1), key_count=case.key_count, prices=True)
    table = stream.table().slice(0, count)
    if case.source == "file":
        place = table.column_names.index("type")
        table = table.set_column(place, "type", table.column("type").cast(pa.string()))
    return table


def measure(case: Case, scale: float, file: str) -> dict[str, Any]:
    """Run a query a few times; return its best time, its shares and a number to compare answers."""
    compiled = cepheid.query(case.query)
    events: Any = file if case.source == "file" else events_of(case, scale)
    count = pq.read_metadata(file).num_rows if case.source == "file" else len(events)
    # Small inputs are interpreted in most processes; here the loop is what is measured.
    rounds = 200 if count < 1_000 else 2

    def run() -> Any:
        return compiled.run(events)

    answer = run()
    timings = [timed(run) for _ in range(rounds)]
    stages = Stages()
    with stages.watching():
        run()
    best = min(timings)

    other = beside_of(case, events, answer)
    beside = min(timed(other) for _ in range(rounds + 1)) if other is not None else (0.0, 0.0)
    return {
        "events": count,
        "cpu_s": best[0],
        "clock_s": best[1],
        "beside_s": beside[0],
        "beside_clock_s": beside[1],
        "shares": stages.shares(),
        "rows": len(answer),
        "check": check_of(answer),
    }


def beside_of(case: Case, events: Any, answer: pa.Table) -> Callable[[], object] | None:
    """Return what runs beside a query; counters must count what the query did."""
    if case.beside:
        return lambda: cepheid.sql(case.beside, tables={"events": events})
    if not case.counted_us:
        return None
    times = events.column("ts").combine_chunks().cast(pa.int64()).to_numpy()
    codes = events.column("type").combine_chunks().indices.to_numpy()

    def count() -> aseq.Outputs:
        return aseq.count_within(times, codes, "ABC", case.counted_us)

    found = count()
    counted = math.fsum(found.counts[found.is_match_end])
    assert math.isclose(counted, math.fsum(answer.column("count").to_numpy())), "other counts"
    return count


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Measure processor time and time on the wall."""
    begun, clock = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - begun, time.perf_counter() - clock


def check_of(table: pa.Table) -> str:
    """Describe an answer by its length and a sum, to nine digits."""
    last = table.column(table.num_columns - 1)
    values = last if pa.types.is_floating(last.type) else pa.chunked_array([[float(len(table))]])
    return f"{len(table)} {pa.compute.sum(values).as_py() or 0.0:.9g}"


if __name__ == "__main__":
    main()
