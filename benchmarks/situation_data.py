"""Streams for the benchmark of situations: cars, a real road, conditions that turn at random."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

SECOND_US = 1_000_000
DATA_VARIABLE = "CEPHEID_DATA"
"""Names the folder of linear_road.parquet."""


def make_cars(count: int, cars: int = 1000) -> pa.Table:
    """Return events of cars, one a second each, with phases of acceleration and braking."""
    random = np.random.default_rng(4)
    phase = random.integers(0, 60, cars)
    pause = random.integers(0, 3, cars)
    n = np.arange(count)
    car, second = n % cars, n // cars
    place = (second + phase[car]) % 60
    accel = np.where(place < 6, 9.0, np.where((place > 20) & (place < 25), -9.0, 0.0))
    speed = np.where((place > 2 + pause[car]) & (place < 24), 80.0, 50.0) + random.random(count)
    times = second * SECOND_US + car * (SECOND_US // cars)
    columns: dict[str, Any] = {"ts": times, "car": car, "accel": accel, "speed": speed}
    return pa.table(columns)


def linear_road() -> pa.Table:
    """Return the cars of Linear Road; acceleration is the change of speed since the last report."""
    path = Path(os.environ[DATA_VARIABLE]) / "linear_road.parquet"
    table = parquet.read_table(path, columns=["ts", "vehicle", "speed"])
    car, speed = np.asarray(table["vehicle"]), np.asarray(table["speed"]).astype(np.float64)
    order = np.argsort(car, kind="stable")
    change = np.diff(speed[order], prepend=0.0)
    change[np.diff(car[order], prepend=-1) != 0] = 0.0
    accel = np.empty(len(car))
    accel[order] = change
    times = np.asarray(table["ts"]).astype("datetime64[us]").astype(np.int64)
    columns: dict[str, Any] = {"ts": times, "car": car.astype(np.int64), "accel": accel}
    return pa.table(columns | {"speed": speed})


def thresholds(table: pa.Table) -> tuple[float, float, float]:
    """Return what counts as accelerating, speeding and braking: 90th, 99th and 90th percentiles."""
    accel, speed = np.asarray(table["accel"]), np.asarray(table["speed"])
    up, down = accel[accel > 0], accel[accel < 0]
    return (
        float(np.percentile(up, 90)), float(np.percentile(speed, 99)),
        float(np.percentile(down, 10)),
    )  # fmt: skip


def make_flags(
    count: int,
    *,
    seed: int = 5,
    rates: tuple[int, ...] = (1, 1, 1, 1),
    lasts: tuple[float, ...] = (),
) -> pa.Table:
    """Return an event a second with conditions that hold for 10 to 100 s, then not for 10 to 50.

    ``rates`` says how many times as long a condition is false, ``lasts`` how many times as long
    it is true.
    """
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {"ts": np.arange(count) * SECOND_US}
    for number, (name, rate) in enumerate(zip("abcdefghij", rates, strict=False)):
        columns[name] = _flag(random, count, rate, lasts[number] if lasts else 1.0)
    return pa.table(columns)


def _flag(random: np.random.Generator, count: int, rate: int, lasts: float) -> NDArray[np.bool_]:
    rounds = count // (25 if lasts >= 1 else 15) + 2
    lengths = np.empty(2 * rounds, np.int64)
    lengths[0::2] = random.integers(10, 51, rounds) * rate
    lengths[1::2] = np.rint(random.integers(10, 101, rounds) * lasts)
    rows = int(np.searchsorted(np.cumsum(lengths), count)) + 1
    flags = np.arange(rows) % 2 == 1
    return np.repeat(flags, lengths[:rows])[:count]
