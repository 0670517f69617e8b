"""Write the made-up events of the guides: ``payments``, ``driving`` and ``loans``, always the same.

python examples/make_guides.py

Public data of these kinds may not be passed on, so each set has the shape of a real one, whose
figures stand here: the cards of Dal Pozzolo et al. (2015), the trips of Ferreira et al. (PLoS ONE,
2017), and the loans of van Dongen (BPI Challenge 2012, doi:10.4121/uuid:3926db30-f712-4394-aebc-
75976070e91f).
"""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

DATA = Path(__file__).parent.parent / "src/cepheid/data"
Row = tuple[Any, ...]

# Amounts of 284,807 payments: the median is 22, the mean 88; 0.17 % are fraud.
MEDIAN, MEAN = 22.0, 88.0
SPREAD = math.sqrt(2 * math.log(MEAN / MEDIAN))
COUNTRIES = ["BE", "FR", "NL", "DE"]


def make_payments(chance: random.Random) -> pa.Table:
    """Make two days of 900 cards; thieves of six try a small amount, then take large ones."""
    begin = datetime(2026, 9, 1)
    rows: list[Row] = []
    for card in range(900):
        home = chance.choice(COUNTRIES)
        for _ in range(1 + int(chance.expovariate(1 / 12))):
            time = begin + timedelta(seconds=chance.randrange(172_800))
            amount = round(chance.lognormvariate(math.log(MEDIAN), SPREAD), 2)
            country = home if chance.random() < 0.93 else chance.choice(COUNTRIES)
            rows.append((time, "payment", card, max(amount, 0.5), country, False))
    for card in chance.sample(range(900), 6):
        time = begin + timedelta(seconds=chance.randrange(20_000, 150_000))
        away = chance.choice(["XK", "YL"])
        rows.append((time, "payment", card, round(chance.uniform(0.5, 2), 2), away, True))
        for _ in range(chance.randint(2, 4)):
            time += timedelta(seconds=chance.randrange(60, 400))
            rows.append((time, "payment", card, round(chance.uniform(250, 900), 2), away, True))
    kinds = [pa.string(), pa.int32(), pa.float64(), pa.string(), pa.bool_()]
    return _table(rows, ["type", "card", "amount", "country", "fraud"], kinds)


# Trips of a car: seconds, strength in m/s² and turn in rad/s of scripted manoeuvres.
MANOEUVRES = {
    "calm": (3.4, 1.5, 0.0),
    "accelerate": (3.6, 3.3, 0.0),
    "brake": (2.4, 4.2, 0.0),
    "left": (3.2, 2.6, 0.42),
    "right": (3.6, 2.6, -0.41),
    "hard left": (3.2, 5.8, 0.42),
    "hard right": (3.6, 6.6, -0.41),
}
NOISE = (0.5, 0.08)


def make_driving(chance: random.Random) -> pa.Table:
    """Make three trips of five minutes, ten samples a second."""
    rows: list[Row] = []
    for trip in range(1, 4):
        time = datetime(2026, 5, 14, 11 + trip)
        while time < datetime(2026, 5, 14, 11 + trip, 5):
            name = chance.choices([*MANOEUVRES], [8, 2, 2, 3, 3, 1, 1])[0]
            seconds, strength, turn = MANOEUVRES[name]
            shift = chance.uniform(-0.6, 0.6)
            for step in range(int(seconds * 10)):
                force = strength * math.sin(math.pi * (step + 0.5) / (seconds * 10)) ** 0.5
                bend = turn * (abs(step / (seconds * 10) - 0.5 - shift / 4) < 0.4)
                sample = (force + chance.gauss(0, NOISE[0]), bend + chance.gauss(0, NOISE[1]))
                rows.append((time, "sample", trip, *(round(value, 3) for value in sample)))
                time += timedelta(milliseconds=100)
    kinds = [pa.string(), pa.int8(), pa.float32(), pa.float32()]
    return _table(rows, ["type", "trip", "force", "turn"], kinds)


# Which step follows which, how often, and the median of seconds before it: 13,087 applications.
STEPS: dict[str, dict[str, float]] = {
    "submitted": {"preaccepted": 0.56, "declined": 0.44},
    "preaccepted": {"accepted": 0.69, "cancelled": 0.15, "declined": 0.15, "": 0.01},
    "accepted": {"offered": 1},
    "offered": {"sent back": 0.49, "cancelled": 0.34, "offered": 0.13, "": 0.04},
    "sent back": {"approved": 0.62, "declined": 0.22, "cancelled": 0.09, "offered": 0.07},
    "approved": {"activated": 0.97, "": 0.03},
}
SECONDS = {
    "submitted": 43,
    "preaccepted": 24_346,
    "accepted": 184,
    "offered": 677_196,
    "sent back": 322_314,
    "approved": 3,
}
CLERKS = [f"clerk {number}" for number in range(1, 13)]


def make_loans(chance: random.Random) -> pa.Table:
    """Make 900 applications of two months; one clerk approves now and then without an offer."""
    rows: list[Row] = []
    for case in range(900):
        time = datetime(2026, 10, 1) + timedelta(seconds=chance.randrange(60 * 86_400))
        amount = round(chance.lognormvariate(math.log(10_000), 0.8), -2)
        step = "submitted"
        while step in STEPS:
            clerk = chance.choice(CLERKS)
            rows.append((time, step, case, clerk, amount))
            time += timedelta(seconds=int(chance.lognormvariate(math.log(SECONDS[step]), 0.9)) + 1)
            follows = STEPS[step]
            step = chance.choices([*follows], [*follows.values()])[0]
            if step == "offered" and clerk == "clerk 7" and chance.random() < 0.3:
                step = "approved"
        if step:
            rows.append((time, step, case, chance.choice(CLERKS), amount))
    kinds = [pa.string(), pa.int32(), pa.string(), pa.float64()]
    return _table(rows, ["type", "case", "clerk", "amount"], kinds)


def _table(rows: list[Row], names: list[str], kinds: list[pa.DataType]) -> pa.Table:
    rows.sort(key=lambda row: row[0])
    columns = list(zip(*rows, strict=True))
    times = pa.array(columns[0], pa.timestamp("us"))
    others = zip(names, columns[1:], kinds, strict=True)
    return pa.table({"ts": times} | {name: pa.array(c, kind) for name, c, kind in others})


if __name__ == "__main__":
    for number, make in enumerate((make_payments, make_driving, make_loans)):
        name = make.__name__.removeprefix("make_")
        table = make(random.Random(31 + number))
        parquet.write_table(table, DATA / f"{name}.parquet", compression="zstd")
