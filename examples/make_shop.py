"""Write the bundled shop, ``shop.parquet``: a day of made-up visits, always the same.

python examples/make_shop.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

TARGET = Path(__file__).parent.parent / "src/cepheid/data/shop.parquet"
DAY = datetime(2026, 3, 14, tzinfo=UTC)
VISITS = 1200
ITEMS = {"kettle": 39.0, "lamp": 54.5, "chair": 129.0, "desk": 349.0, "mug": 9.5, "rug": 79.0}
BUSY = [1, 1, 1, 1, 1, 2, 4, 7, 9, 9, 8, 9, 11, 9, 8, 8, 9, 11, 14, 17, 18, 13, 7, 3]
"""How many visits begin in an hour of the day, relatively."""


def make_shop(seed: int = 21) -> pa.Table:
    """Make the events of a day: a visit, products, a cart, an order, and a payment or none."""
    chance = random.Random(seed)
    rows: list[tuple[datetime, str, int, str | None, float | None]] = []
    for visit in range(1, VISITS + 1):
        (hour,) = chance.choices(range(24), BUSY)
        time = DAY + timedelta(hours=hour, seconds=chance.uniform(0, 3600))
        rows.append((time, "visit", visit, None, None))
        if chance.random() > 0.78:
            continue
        in_cart: list[str] = []
        for _ in range(1 + int(chance.expovariate(0.5))):
            time += timedelta(seconds=chance.uniform(5, 180))
            item = chance.choice([*ITEMS])
            rows.append((time, "product", visit, item, ITEMS[item]))
            if chance.random() < 0.3:
                time += timedelta(seconds=chance.uniform(3, 60))
                rows.append((time, "addcart", visit, item, ITEMS[item]))
                in_cart.append(item)
        if in_cart and chance.random() < 0.62:
            rows.extend(_order(chance, time, visit, in_cart))
    rows.sort()
    names = ("ts", "type", "visit", "item", "price")
    kinds = (pa.timestamp("us", "UTC"), pa.string(), pa.int32(), pa.string(), pa.float64())
    columns = zip(*rows, strict=True)
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})


def _order(
    chance: random.Random, time: datetime, visit: int, in_cart: list[str]
) -> list[tuple[datetime, str, int, str | None, float | None]]:
    """Make an order; most are paid within minutes, some after a card was declined, some never."""
    total = sum(ITEMS[item] for item in in_cart)
    time += timedelta(seconds=chance.uniform(20, 240))
    rows: list[tuple[datetime, str, int, str | None, float | None]] = []
    rows.append((time, "order", visit, None, total))
    while chance.random() < 0.2:
        time += timedelta(seconds=chance.uniform(5, 20))
        rows.append((time, "declined", visit, None, total))
    if chance.random() < 0.9:
        time += timedelta(seconds=chance.uniform(20, 400))
        rows.append((time, "paid", visit, None, total))
    return rows


if __name__ == "__main__":
    parquet.write_table(make_shop(), TARGET, compression="zstd")
