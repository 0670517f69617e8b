"""A small table of prices that SQL examples read."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

import cepheid

PRICES = {"acme": [10, 8, 7, 9, 11, 6], "zeta": [5, 5, 4, 6, 3, 2]}
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def ticks() -> pa.Table:
    """Return prices of two companies, one a second each."""
    rows = [
        {"company": name, "seq": 2 * i + k, "ts": NOON + dt.timedelta(seconds=i), "price": price}
        for k, (name, prices) in enumerate(PRICES.items())
        for i, price in enumerate(map(float, prices))
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["ts"])))


def run_on_ticks(text: str) -> Any:
    """Return the result of a SQL text over the table ``ticks``."""
    return cepheid.sql(text.strip(), tables={"ticks": ticks()})
