"""The events that every system reads: a number of events in, Parquet and CSV files out.

Both sets have the columns ``ts`` (milliseconds, one event each), ``type``, ``key``, ``host`` and
``price``. ``trades`` has the types A, B and C, 1,000 keys and 100 hosts, and a random walk of the
price of each key: ten events of a key in ten seconds, ten of a host in a second. ``shop`` has
views, carts, orders and payments, and about twenty events a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

if TYPE_CHECKING:
    from pathlib import Path

KEYS, HOSTS, EVENTS_PER_SESSION = 1_000, 100, 20
TRADES, SHOP = "trades", "shop"
SHARES = {"view": 0.6, "cart": 0.2, "order": 0.12, "payment": 0.08}


def write_files(folder: Path, event_counts: tuple[int, ...]) -> None:
    """Write the first events of both sets for each number, unless the files are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in ((TRADES, trades), (SHOP, shop)):
        places = [file_of(folder, name, count) for count in event_counts]
        if all(path.exists() for stem in places for path in (parquet_of(stem), csv_of(stem))):
            continue
        events = make(max(event_counts))
        for stem, count in zip(places, event_counts, strict=True):
            table = events.slice(0, count)
            parquet.write_table(table, parquet_of(stem))
            options = csv.WriteOptions(include_header=False, quoting_style="none")
            csv.write_csv(table, csv_of(stem), options)


def file_of(folder: Path, name: str, count: int) -> Path:
    """Return the path of a set of events, without its suffix."""
    return folder / f"{name}-{count}"


def parquet_of(stem: Path) -> Path:
    """Return the Parquet file of a set of events."""
    return stem.with_suffix(".parquet")


def csv_of(stem: Path) -> Path:
    """Return the CSV file of a set of events."""
    return stem.with_suffix(".csv")


def trades(count: int) -> pa.Table:
    """Return trades of random keys and hosts."""
    random = np.random.default_rng(7)
    key = random.integers(0, KEYS, count)
    order = np.argsort(key, kind="stable")
    walk = np.cumsum(random.integers(-3, 4, count)[order])
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    base = np.repeat(walk[starts], np.diff(starts, append=count))
    price = np.empty(count, np.int64)
    price[order] = 1000 + walk - base
    host = random.integers(0, HOSTS, count)
    return _table(random.integers(0, 3, count), ["A", "B", "C"], key, host, price)


def shop(count: int) -> pa.Table:
    """Return the steps of customers; ``key`` is a session."""
    random = np.random.default_rng(8)
    key = random.integers(0, max(count // EVENTS_PER_SESSION, 1), count)
    kind = random.choice(len(SHARES), count, p=list(SHARES.values()))
    nothing = np.zeros(count, np.int64)
    return _table(kind, list(SHARES), key, nothing, nothing)


def _table(kind: Any, names: list[str], key: Any, host: Any, price: Any) -> pa.Table:
    codes: Any = pa.array(kind.astype(np.int8))
    columns: dict[str, Any] = {
        "ts": np.arange(len(kind)),
        "type": pa.DictionaryArray.from_arrays(codes, pa.array(names)).cast(pa.string()),
        "key": key,
        "host": host,
        "price": price,
    }
    return pa.table(columns)
