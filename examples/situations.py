"""Situations in real data, as timelines: aggressive drivers, hard turns, and flights on hold.

python examples/situations.py DATA [--images FOLDER]

DATA holds linear_road.parquet, driving_sensors.parquet and flight_tracks.parquet; what is missing
is left out. Images need the extra `charts`: pip install 'cepheid[charts]'.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

import cepheid
from cepheid.interfaces.chart import timeline

SHOWN = 3
"""Partitions of which a timeline is drawn."""


class Example(NamedTuple):
    """A query about some data."""

    file: str
    title: str
    read: Callable[[Path], pa.Table]
    key: str
    define: str
    pattern: str


def read_road(path: Path) -> pa.Table:
    """Return Linear Road with the change of speed since a car's last report, half a minute ago."""
    table = parquet.read_table(path, columns=["ts", "vehicle", "speed", "lane"])
    car, speed = np.asarray(table["vehicle"]), np.asarray(table["speed"]).astype(np.float64)
    order = np.argsort(car, kind="stable")
    change = np.diff(speed[order], prepend=0.0)
    change[np.diff(car[order], prepend=-1) != 0] = 0.0
    accel = np.empty(len(car))
    accel[order] = change
    return table.append_column("accel", pa.array(accel))


def read_sensors(path: Path) -> pa.Table:
    """Return force and turn of a phone in a car, both averaged over a second."""
    table = parquet.read_table(path)
    parts = []
    for trip in table["trip"].unique().to_pylist():
        here = table.filter(pc.equal(table["trip"], trip))
        force = here.filter(pc.equal(here["type"], "lin_acc"))
        turn = here.filter(pc.equal(here["type"], "gyro"))
        times = np.asarray(force["ts"]).astype(np.int64)
        level = np.hypot(smooth(force, "x"), smooth(force, "y"))
        yaw = np.abs(np.interp(times, np.asarray(turn["ts"]).astype(np.int64), smooth(turn, "z")))
        columns: dict[str, Any] = {"ts": force["ts"], "trip": force["trip"]}
        parts.append(pa.table(columns | {"force": pa.array(level), "yaw": pa.array(yaw)}))
    return pa.concat_tables(parts)


def smooth(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return a column averaged over 51 samples, about a second."""
    return np.convolve(np.asarray(table[name]).astype(np.float64), np.ones(51) / 51, mode="same")


def read_flights(path: Path) -> pa.Table:
    """Return aircraft whose height and climb are known."""
    names = ["ts", "icao24", "callsign", "altitude_ft", "vertical_rate_fpm"]
    return parquet.read_table(path, columns=names).drop_null()


EXAMPLES = (
    Example(
        "linear_road.parquet", "Aggressive drivers: speeding up, speeding, braking", read_road,
        "vehicle",
        "DEFINE Accelerates AS accel > 15, Fast AS speed > 65, Brakes AS accel < -15",
        "PATTERN Accelerates overlaps;starts;meets;during Fast "
        "AND Fast contains;finished by;overlaps;meets Brakes AND Accelerates before Brakes "
        "DETECTED WITHIN 20 minutes RETURN MAX(Fast.speed) AS top",
    ),
    Example(
        "driving_sensors.parquet", "Hard turns: a strong force while the car turns", read_sensors,
        "trip",
        "DEFINE Turns AS yaw > 0.2 AT LEAST 1 s, Force AS force > 2 AT LEAST 1 s",
        "PATTERN Turns overlaps;overlapped by;contains;during;starts;started by Force "
        "DETECTED WITHIN 1 minute RETURN MAX(Force.force) AS force",
    ),
    Example(
        "flight_tracks.parquet", "On hold: level between two descents, before the landing",
        read_flights, "icao24",
        "DEFINE Descends AS vertical_rate_fpm < -500 AND altitude_ft > 8000 AT LEAST 1 minute, "
        "Holds AS ABS(vertical_rate_fpm) < 300 AND altitude_ft BETWEEN 3000 AND 15000 "
        "AT LEAST 2 minutes, Lands AS vertical_rate_fpm < -500 AND altitude_ft < 5000",
        "PATTERN Descends before;meets Holds AND Holds before;meets Lands "
        "DETECTED WITHIN 30 minutes RETURN AVG(Holds.altitude_ft) AS feet",
    ),
)  # fmt: skip


def show(example: Example, folder: Path, images: Path | None) -> None:
    """Print the matches of an example and the situations around the first ones."""
    events = example.read(folder / example.file)
    head = f"FROM events PARTITION BY {example.key} {example.define}"
    matches = cepheid.query(f"{head} {example.pattern}").run(events)
    sys.stdout.write(f"\n{example.title}: {len(matches)} matches in {len(events):,} events\n")
    keys = matches[example.key].unique().slice(0, SHOWN)
    mine = events.filter(pc.is_in(events[example.key], keys))
    names = [part.split()[0] for part in example.define.removeprefix("DEFINE ").split(", ")]
    listed = cepheid.query(f"{head} SITUATIONS {', '.join(names)}").run(mine)
    marks = matches.filter(pc.is_in(matches[example.key], keys))
    sys.stdout.write(f"{timeline(listed, marks=marks)}\n")
    if images is not None:
        draw(example, listed, marks, images / f"situations-{Path(example.file).stem}.png")


def draw(example: Example, listed: pa.Table, marks: pa.Table, file: Path) -> None:
    """Write situations and the moments of matches as a picture."""
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    rows = [_plain(row, example.key) for row in listed.to_pylist()]
    found = [_plain(row, example.key) for row in marks.to_pylist()]
    x = altair.X("ts:T", title=None, axis=altair.Axis(format="%H:%M"))
    bars = (
        altair.Chart(altair.InlineData(values=rows), width=640)
        .mark_bar(height=10)
        .encode(x=x, x2="te:T", y=altair.Y("what:N", title=None), color="situation:N")
    )
    ticks = (
        altair.Chart(altair.InlineData(values=found))
        .mark_tick(color="black", thickness=2)
        .encode(x="ts:T", y="what:N")
    )
    chart = altair.layer(bars, ticks).properties(title=example.title).configure(background="white")
    file.parent.mkdir(parents=True, exist_ok=True)
    chart.save(file, scale_factor=2)
    sys.stdout.write(f"wrote {file}\n")


def _plain(row: dict[str, Any], key: str) -> dict[str, str]:
    texts = {name: str(value) for name, value in row.items() if name in ("situation", "ts", "te")}
    return texts | {"what": f"{row[key]} {row.get('situation', 'match')}"}


def main() -> int:
    """Show every example whose data is there."""
    parser = argparse.ArgumentParser(description="Show situations in real data as timelines.")
    parser.add_argument("data", type=Path, help="the folder of the Parquet files")
    parser.add_argument("--images", type=Path, help="where pictures go")
    options = parser.parse_args()
    for example in EXAMPLES:
        if (options.data / example.file).exists():
            show(example, options.data, options.images)
    return 0


if __name__ == "__main__":
    sys.exit(main())
