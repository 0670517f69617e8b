"""Streams for predicates between neighbours: sizes, or files of real data, in, Arrow tables out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FOLDER_VARIABLE = "CEPHEID_DATA"
MISSING = (
    f"Q1 and Q3 need real data: set {FOLDER_VARIABLE} to the folder that holds "
    "stock_trades.parquet and linear_road.parquet"
)
SECTORS = {"AIG": "insurance", "BAC": "banks", "IBM": "technology", "SPY": "funds"}
"""The file of trades names companies only."""

EVENTS_PER_SECOND = 3_000
KEY_MAX, CPU_MAX, LOAD_MEAN = 10, 1_000, 100
"""The cluster of GRETA's table 2."""

MARKER_SHARE = 0.01
"""The share of job starts, and of job ends; the paper gives none."""

STOPPED_REPORTS = 4
REPORT_INTERVAL = pd.Timedelta(seconds=30)
"""Linear Road: a car has stopped if it reports a place four times, every half minute."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Events of one type, A, with uniform prices in [0, 100) and times that rise strictly."""

    times_us: Integers
    prices: Floats
    keys: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return self.times_us.size

    def table(self) -> pa.Table:
        """Return the columns ts, type, price and key."""
        types = pa.DictionaryArray.from_arrays(np.zeros(len(self), np.int8), pa.array(["A"]))
        columns: dict[str, pa.Array[Any]] = {
            "ts": pa.array(self.times_us).view(pa.timestamp("us")),
            "type": types,
            "price": pa.array(self.prices),
            "key": pa.array(self.keys),
        }
        return pa.table(columns)


def prices(event_count: int, step_us: int = 600, seed: int = 7) -> Prices:
    """Return events of random prices and of 100 random keys."""
    random = np.random.default_rng(seed)
    times_us = np.arange(event_count) * step_us + random.integers(0, step_us, event_count)
    keys = random.integers(0, 100, event_count, np.int32)
    return Prices(times_us, random.random(event_count) * 100, keys)


def data_folder() -> Path | None:
    """Return the folder with the real data, if it is named and complete."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, "missing"))
    files = (folder / f"{name}.parquet" for name in ("stock_trades", "linear_road"))
    return folder if all(file.is_file() for file in files) else None


@cache
def trades(folder: Path) -> pa.Table:
    """Return the trades with the columns ts, type, company, sector and price (GRETA's Q1)."""
    table = parquet.read_table(
        folder / "stock_trades.parquet", columns=["ts", "type", "symbol", "price"]
    )
    company = table["symbol"].combine_chunks().dictionary_encode()
    names = pa.array([SECTORS[str(name)] for name in company.dictionary.to_pylist()], pa.string())
    sector = pa.DictionaryArray.from_arrays(company.indices, names)
    table = table.set_column(2, "company", company).append_column("sector", sector)
    return table.set_column(1, "type", pc.dictionary_encode(table["type"]))


def cluster(event_count: int, seed: int = 7) -> pa.Table:
    """Return measurements as GRETA's table 2 describes them, times in whole seconds (Q2)."""
    random = np.random.default_rng(seed)
    seconds = np.arange(event_count) // EVENTS_PER_SECOND
    shares = [MARKER_SHARE, 1 - 2 * MARKER_SHARE, MARKER_SHARE]
    kinds = random.choice(3, event_count, p=shares).astype(np.int8)
    names = pa.array(["Start", "Measurement", "End"])
    columns: dict[str, pa.Array[Any]] = {
        "ts": pa.array(seconds * 1_000_000).view(pa.timestamp("us")),
        "type": pa.DictionaryArray.from_arrays(kinds, names),
        "mapper": pa.array(random.integers(0, KEY_MAX + 1, event_count, np.int32)),
        "job": pa.array(random.integers(0, KEY_MAX + 1, event_count, np.int32)),
        "cpu": pa.array(random.integers(0, CPU_MAX + 1, event_count, np.int32)),
        "load": pa.array(random.poisson(LOAD_MEAN, event_count).astype(np.int32)),
    }
    return pa.table(columns)


@cache
def road(folder: Path) -> pa.Table:
    """Return position reports and the accidents among them: ts, type, vehicle, segment, speed (Q3).

    As in Linear Road, an accident is two cars that have stopped at one place; it is reported with
    every position report that shows it. Accidents have no vehicle.
    """
    names = ["ts", "vehicle", "segment", "speed", "lane", "dir", "pos"]
    cars = parquet.read_table(folder / "linear_road.parquet", columns=names).to_pandas()
    place = ["dir", "lane", "pos"]
    ordered = cars.sort_values(["vehicle", "ts"], kind="stable")
    is_new = (ordered[["vehicle", *place]] != ordered[["vehicle", *place]].shift()).any(axis=1)
    reports = ordered.groupby(is_new.cumsum()).cumcount() + 1
    stopped = ordered[reports >= STOPPED_REPORTS].sort_values("ts", kind="stable")
    before = stopped.groupby(place)[["ts", "vehicle"]].shift()
    hit = (before["vehicle"] != stopped["vehicle"]) & (
        stopped["ts"] - before["ts"] <= REPORT_INTERVAL
    )
    accidents = stopped.loc[hit, ["ts", "segment"]].assign(type="Accident")
    positions = cars[["ts", "vehicle", "segment", "speed"]].assign(type="Position")
    # A column of whole numbers with gaps would become one of doubles.
    positions["vehicle"] = positions["vehicle"].astype("Int32")
    both = pd.concat([positions, accidents]).sort_values("ts", kind="stable")
    both["type"] = both["type"].astype("category")
    return pa.Table.from_pandas(both, preserve_index=False)
