"""Flink CEP over the windows of COGRA's figures: events in, CPU seconds and counted trends out.

The jars come by Maven, as for docs/peers.md; without Maven there are no figures of Flink.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from benchmarks import ours
from benchmarks.papers.data import Events
from benchmarks.papers.entry import OURS, Found, Point, Verdict, times
from benchmarks.peers.systems import BUILD, OPENS, JavaSystem, NotInstalledError

FLINK = "Flink CEP"
LIMIT_S = 10.0
"""CPU seconds after which Flink gives up on a window."""

CLOCK_LIMIT_S = 300
SYSTEM = JavaSystem(
    "flink_trends", "Flink CEP", "flink", "FlinkTrends", "flink-cep", beside=("FlinkCep",)
)


class Counted(NamedTuple):
    """The CPU seconds of a job, and the trends that it built."""

    seconds: float
    trends: int


@cache
def missing() -> str:
    """Return why Flink cannot run here; an empty text if it can."""
    try:
        SYSTEM.install()
    except (NotInstalledError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


def count(pattern: str, windows: Sequence[Events]) -> list[Counted]:
    """Run a pattern over windows, one after the other; the list ends where Flink gives up."""
    with tempfile.TemporaryDirectory() as folder:
        files = [_written(events, Path(folder) / f"{n}.csv") for n, events in enumerate(windows)]
        opens = [part for name in OPENS for part in ("--add-opens", name)]
        jars = f"{BUILD / 'flink_trends-classes'}:{BUILD / 'flink'}/*"
        command = ["java", "-Xmx3g", *opens, "-cp", jars, SYSTEM.program, pattern, str(LIMIT_S)]
        process = subprocess.Popen(
            [*command, *map(str, files)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=CLOCK_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
    rows = [line.split() for line in said.splitlines()]
    return [Counted(float(seconds), int(trends)) for seconds, trends in rows]


def _written(events: Events, path: Path) -> Path:
    """Write events as Flink's program reads them; a place in the stream is their time."""
    columns = (events.table["type"].to_pylist(), events.keys.tolist())
    rows = enumerate(zip(*columns, strict=True))
    lines = "".join(f"{place},{name},{key},0,0\n" for place, (name, key) in rows)
    path.write_text(lines, "utf-8")
    return path


def beside(
    found: Found,
    pattern: str,
    windows: Mapping[float, Events],
    query: str,
) -> Found:
    """Add Flink's curve to a measurement, and say what it is; the trends are those of a query.

    Flink's relaxed contiguity is another rule than the papers' skip-till-next-match: it may leave
    a loop at every event, so that it has more trends, and the note tells of both numbers.

    Raises
    ------
    AssertionError
        If both count under the same rule, and differ.
    """
    if why := missing():
        return _told(found, (), f"Flink CEP was not measured: {why}.")
    counted = count(pattern, list(windows.values()))
    points = [Point(FLINK, size, own.seconds) for size, own in zip(windows, counted, strict=False)]
    if len(counted) < len(windows):
        points.append(Point(FLINK, list(windows)[len(counted)], None))
    note = (
        f"{FLINK} {SYSTEM.version()} builds every trend; its time is that of a job, with its start."
    )
    if not counted:
        note += f" It does not end in {LIMIT_S:g} s at the smallest window."
    else:
        size = points[len(counted) - 1].x
        ratio = counted[-1].seconds / found.at(OURS, size)
        note += (
            f" At {size:,} events, the most with which it ends, it takes {times(ratio)} as long "
        )
        note += "as Cepheid."
    for (size, events), own in zip(windows.items(), counted, strict=False):
        rows = ours.run(query, events.table)["count"].to_pylist()
        wanted = int(rows[0] or 0) if rows else 0
        if own.trends == wanted:
            continue
        if not pattern.endswith("next"):
            message = f"Flink has {own.trends} trends of {size}, Cepheid {wanted}"
            raise AssertionError(message)
        note += (
            f" Its rule for followedBy is another one: {own.trends:,} trends of {size:,} events, "
            f"and {wanted:,} by skip-till-next-match."
        )
        break
    return _told(found, points, note)


def _told(found: Found, points: Sequence[Point], note: str) -> Found:
    notes = " ".join(filter(None, [found.note, note]))
    return msgspec.structs.replace(found, points=(*found.points, *points), note=notes)


def verdicts(found: Found, claimed: float) -> tuple[Verdict, ...]:
    """Compare Flink with COGRA's algorithm where both end, and with what the paper says of them."""
    if not found.curve(FLINK):
        return ()
    size = found.last(FLINK)
    ratio = found.at(FLINK, size) / found.at("COGRA", size)
    text = f"{FLINK} takes {times(ratio)} as long as COGRA's kernel at {size:,} events"
    return (Verdict(ratio >= claimed, f"{text} (the paper: {claimed:,.0f} times)"),)
