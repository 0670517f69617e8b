"""Streams for the benchmarks: a seed and sizes in, arrays or an Arrow table out.

Times rise strictly and are aligned to the epoch, so that no benchmark depends on ties. Columns are
compact and filled piece by piece: 10^8 events with keys and prices take 1.7 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.template import TYPES

STEP_US = 600
"""The mean distance of two events; ten minutes hold a million."""

CHUNK_EVENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Stream:
    """Events as columns.

    Attributes
    ----------
    times_us
        Microseconds since the epoch.
    type_codes
        The type of each event: an index into `types`.
    key_codes
        What the stream is partitioned by.
    prices
        A value to aggregate.
    types
        The names of the types.
    """

    times_us: npt.NDArray[np.int64]
    type_codes: npt.NDArray[np.int8]
    key_codes: npt.NDArray[np.int32]
    prices: npt.NDArray[np.float32]
    types: tuple[str, ...]

    def __len__(self) -> int:
        return self.times_us.size

    def table(self) -> pa.Table:
        """Return the events as a table with the columns ts, type, key and price; copies nothing."""
        types = pa.DictionaryArray.from_arrays(
            self.type_codes, pa.array(list(self.types), type=pa.string())
        )
        times = pa.array(self.times_us).view(pa.timestamp("us"))
        columns: dict[str, pa.Array[Any]] = {"ts": times, "type": types}
        # A stream without keys or prices has columns of length 0.
        if self.key_codes.size:
            columns["key"] = pa.array(self.key_codes)
        if self.prices.size:
            columns["price"] = pa.array(self.prices)
        return pa.table(columns)


def uniform(
    event_count: int,
    *,
    type_count: int = 3,
    key_count: int = 0,
    prices: bool = False,
    step_us: int = STEP_US,
    seed: int = 7,
) -> Stream:
    """Return events of uniform types, keys and prices; 0 keys means no column of keys."""
    random = np.random.default_rng(seed)
    times_us = np.empty(event_count, dtype=np.int64)
    type_codes = np.empty(event_count, dtype=np.int8)
    key_codes = np.empty(event_count if key_count else 0, dtype=np.int32)
    values = np.empty(event_count if prices else 0, dtype=np.float32)
    for begin in range(0, event_count, CHUNK_EVENTS):
        end = min(begin + CHUNK_EVENTS, event_count)
        times_us[begin:end] = np.arange(begin, end) * step_us
        times_us[begin:end] += random.integers(0, step_us, end - begin)
        type_codes[begin:end] = random.integers(0, type_count, end - begin, dtype=np.int8)
        if key_count:
            key_codes[begin:end] = random.integers(0, key_count, end - begin, dtype=np.int32)
        if prices:
            values[begin:end] = random.random(end - begin, dtype=np.float32) * 100
    return Stream(times_us, type_codes, key_codes, values, tuple(TYPES[:type_count]))


def stock(
    event_count: int,
    *,
    company_count: int = 100,
    events_per_second: int = 1000,
    seed: int = 7,
) -> Stream:
    """Return trades like those of the papers: one type, a random walk of prices per company."""
    random = np.random.default_rng(seed)
    step_us = 1_000_000 // events_per_second
    times_us = np.arange(event_count, dtype=np.int64) * step_us
    times_us += random.integers(0, step_us, event_count)
    companies = random.integers(0, company_count, event_count, dtype=np.int32)
    changes = random.integers(-2, 3, event_count, dtype=np.int8)
    prices = _walks(companies, changes, company_count)
    codes = np.zeros(event_count, dtype=np.int8)
    return Stream(times_us, codes, companies, prices, ("Stock",))


@kernel
def _walks(
    companies: npt.NDArray[np.int32], changes: npt.NDArray[np.int8], company_count: int
) -> npt.NDArray[np.float32]:
    latest = np.full(company_count, 100.0)
    prices = np.empty(companies.size, dtype=np.float32)
    for i in range(companies.size):
        price = latest[companies[i]] + changes[i]
        latest[companies[i]] = price if price > 1.0 else 1.0
        prices[i] = latest[companies[i]]
    return prices
