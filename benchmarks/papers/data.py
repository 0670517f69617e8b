"""The papers' streams: real data where a folder holds them, else made ones of the same shape.

CEPHEID_DATA names the folder. Every stream says which it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks import streams
from benchmarks.edge_streams import FOLDER_VARIABLE
from pyarrow import parquet

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
SLOW, FAST = 60, 100
"""The heart rates of COGRA's query 4."""


@dataclass(frozen=True, slots=True)
class Events:
    """A stream: its table, type codes, keys and values, and where it is from."""

    table: pa.Table
    codes: Codes
    keys: Integers
    values: Floats
    source: str

    def __len__(self) -> int:
        return len(self.table)

    def first(self, count: float) -> Events:
        """Return the first events."""
        n = int(count)
        return Events(
            self.table.slice(0, n), self.codes[:n], self.keys[:n], self.values[:n], self.source
        )

    def thin(self, count: float) -> Events:
        """Return so many events, evenly from all: the papers vary the rate of a window."""
        rows = np.linspace(0, len(self) - 1, int(count)).astype(np.int64)
        return Events(
            self.table.take(rows), self.codes[rows], self.keys[rows], self.values[rows], self.source
        )

    def parts(self) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the rows of every key, in the order of time."""
        order = np.argsort(self.keys, kind="stable")
        bounds = np.flatnonzero(np.diff(self.keys[order], prepend=-1, append=-2))
        for begin, end in pairwise(bounds):
            yield order[begin:end]


def folder() -> Path | None:
    """Return the folder with real data, if it is named."""
    name = os.environ.get(FOLDER_VARIABLE)
    return Path(name) if name else None


def read(name: str, columns: list[str]) -> pa.Table | None:
    """Return some columns of a file of real data, or none."""
    found = folder()
    if found is None or not (found / f"{name}.parquet").is_file():
        return None
    return parquet.read_table(found / f"{name}.parquet", columns=columns)


def made(
    times_us: Any, names: list[str], codes: Any, keys: Any, values: Any, source: str
) -> Events:
    """Put columns together; the table has ts, type, key and price."""
    codes, keys = np.asarray(codes, np.int8), np.asarray(keys, np.int64)
    values = np.asarray(values, np.float64)
    columns: dict[str, Any] = {
        "ts": pa.array(np.asarray(times_us, np.int64)).view(pa.timestamp("us")),
        "type": pa.DictionaryArray.from_arrays(codes, pa.array(names)),
        "key": pa.array(keys),
        "price": pa.array(values),
    }
    return Events(pa.table(columns), codes, keys, values, source)


def _numbered(column: Any) -> Integers:
    encoded = pc.dictionary_encode(column).combine_chunks()
    return np.asarray(encoded.indices, np.int64)


def rising(times_us: Integers) -> Integers:
    """Put equal times a microsecond apart: the papers' algorithms know no ties."""
    numbers = np.arange(len(times_us))
    return np.maximum.accumulate(times_us - numbers) + numbers


@cache
def stocks(key: str = "company") -> Events:
    """Return prices of many companies, one type: the papers' NYSE data; keys may be sectors."""
    table = read("stock_eod", ["ts", key, "price"])
    if table is None:
        drawn = streams.stock(1_000_000, company_count=921)
        zeros = np.zeros(len(drawn), np.int8)
        keys = drawn.key_codes if key == "company" else drawn.key_codes % 13
        walks = "made: 1 M prices of 921 companies that walk at random"
        return made(drawn.times_us, ["A"], zeros, keys, drawn.prices, walks)
    times = np.asarray(table["ts"]).astype("datetime64[us]").astype(np.int64)
    times = times if key == "company" else rising(times)
    source = "`stock_eod`: 1.1 M closing prices of 921 companies"
    zeros = np.zeros(len(table), np.int8)
    return made(times, ["A"], zeros, _numbered(table[key]), table["price"], source)


@cache
def trades() -> Events:
    """Return trades, one after the other, of four companies; values are prices.

    Types are a company and whether its price fell: eight of them, A to H.
    """
    table = read("stock_trades", ["ts", "symbol", "price"])
    if table is None:
        drawn = streams.stock(400_000, company_count=4, events_per_second=30)
        times, keys = drawn.times_us, drawn.key_codes.astype(np.int64)
        prices = drawn.prices.astype(np.float64)
        source = "made: trades of 4 companies whose prices walk at random"
    else:
        # The first hour of a trading day, in which the market is open.
        table = table.slice(500_000, 400_000)
        times = np.asarray(table["ts"]).astype("datetime64[us]").astype(np.int64)
        keys, prices = _numbered(table["symbol"]), np.asarray(table["price"])
        source = "`stock_trades`: trades of 4 companies"
    order = np.argsort(keys, kind="stable")
    fell = np.empty(len(keys), bool)
    fell[order] = np.diff(prices[order], prepend=np.inf) < 0
    times = rising(times)
    codes = (2 * keys + fell).astype(np.int8)
    return made(times, list("ABCDEFGH"), codes, keys, prices, source)


@cache
def activity() -> Events:
    """Return heart rates of people: A is slow, C fast, B what is between them."""
    table = read("wearable_activity", ["ts", "subject", "heart_rate"])
    if table is None:
        random = np.random.default_rng(3)
        count = 600_000
        keys = np.arange(count) % 10
        rates = 75 + np.cumsum(random.normal(0, 2, (count // 10, 10)), axis=0)
        rates = np.abs((rates - 40) % 160 - 80) + 40
        rate, times = rates.ravel(), np.arange(count) // 10 * 1_000_000
        source = "made: heart rates of 10 people, one a second"
    else:
        keys, rate = np.asarray(table["subject"]), np.asarray(table["heart_rate"])
        times = np.asarray(table["ts"]).astype("datetime64[us]").astype(np.int64)
        source = "`wearable_activity`: 660 k heart rates of 10 people, one a second"
    codes = np.where(rate < SLOW, 0, np.where(rate > FAST, 2, 1))
    return made(times, ["A", "B", "C"], codes, keys, rate, source)


@cache
def rides() -> Events:
    """Return rides: A is the start of one and B its end, keys are bicycles."""
    table = read("citibike_jc", ["ts", "type", "bike", "duration_s"])
    if table is None:
        random = np.random.default_rng(4)
        keys = random.integers(0, 500, 300_000)
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        place = np.arange(len(keys)) - np.repeat(starts, np.diff(starts, append=len(keys)))
        codes = np.empty(len(keys), np.int8)
        codes[order] = place % 2
        values = random.integers(60, 3600, len(keys))
        times, source = np.arange(len(keys)) * 1_000_000, "made: 300 k starts and ends of rides"
    else:
        times = np.asarray(table["ts"]).astype("datetime64[us]").astype(np.int64)
        times = rising(times)
        codes = (np.asarray(table["type"]) == "end").astype(np.int8)
        keys, values = _numbered(table["bike"]), np.asarray(table["duration_s"])
        source = "`citibike_jc`: 300 k starts and ends of rides on 500 bicycles"
    return made(times, ["A", "B"], codes, keys, values, source)


def regrouped(events: Events, groups: int) -> Events:
    """Return the same events with so many keys."""
    keys = events.keys % groups
    place = events.table.schema.get_field_index("key")
    table = events.table.set_column(place, "key", pa.array(keys))
    return Events(table, events.codes, keys, events.values, events.source)
