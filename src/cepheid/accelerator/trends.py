"""Falling prices and the like on the device: one variable under Kleene plus, one comparison.

Segments (keys in windows) run side by side; within one, every event looks at all before it, in
tiles. That is quadratic in the length of a segment, and worth it up to some ten thousand events.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.trends import trend_kernel
from cepheid.accelerator.summaries import by_key
from cepheid.engine.events import Columns, EventArrays, KeyTable
from cepheid.engine.job import Job
from cepheid.engine.reading import read_arrays
from cepheid.engine.relations import Comparison, read_relations
from cepheid.engine.results import build_table
from cepheid.engine.runs import LONG_AGO, Rows
from cepheid.kernels.ranks import OPERATORS
from cepheid.language import tree
from cepheid.planner.plan import WindowKind

THREADS = 256
PAIRS_PER_SECOND = 1e12
PAIRS_OF_A_BLOCK = 8e9
CPU_EVENT_SECONDS = 80e-9
"""Guesses of what a device, one of its blocks, and the CPU do."""


class Trends(NamedTuple):
    """Events by key and window, and where these begin."""

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    weights: NDArray[np.float64]
    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    before: NDArray[np.int64]
    bounds: NDArray[np.int64]
    operator: int

    def is_worth_it(self) -> bool:
        """Return whether the device is done before the CPU, by what both are known to do."""
        lengths = np.diff(self.bounds).astype(np.float64)
        pairs = lengths * lengths / 2
        taken = max(pairs.sum() / PAIRS_PER_SECOND, pairs.max(initial=0) / PAIRS_OF_A_BLOCK)
        return bool(1e-3 + taken < CPU_EVENT_SECONDS * lengths.sum())


def read_trends(job: Job, keys: KeyTable, table: pa.Table) -> Trends | None:
    """Return the events of a table, None if a value that is compared is missing."""
    columns = Columns(table)
    relations = read_relations(job.plan.edges, columns)
    comparison = relations[0].comparisons[0] if relations[0].comparisons else None
    if comparison is None or not _all_valid(comparison):
        return None
    arrays = read_arrays(job, keys, columns)
    if len(arrays.ts) != len(table):
        return None  # An event belongs to no partition.
    rows = np.flatnonzero(arrays.bits)
    order = by_key(arrays.key[rows])
    rows = rows if order is None else rows[order]
    arrays = arrays.take(rows)
    bounds = _bounds(job, arrays)
    return Trends(
        arrays.ts,
        arrays.key,
        np.ascontiguousarray(arrays.weights[: max(len(job.parts) - 1, 1)], np.float64),
        comparison.prev_keys[rows],
        comparison.next_keys[rows],
        _before(job, arrays, bounds),
        bounds,
        OPERATORS[comparison.operator],
    )


def _all_valid(comparison: Comparison) -> bool:
    masks = (comparison.prev_valid, comparison.next_valid)
    return all(mask is None or bool(mask.all()) for mask in masks)


def _bounds(job: Job, arrays: EventArrays) -> NDArray[np.int64]:
    if not len(arrays.ts):
        return np.zeros(1, np.int64)
    edges = np.diff(arrays.key) != 0
    if job.plan.window.kind is WindowKind.TUMBLING:
        edges |= np.diff(arrays.ts // job.plan.window.within) != 0
    return np.concatenate([[0], np.flatnonzero(edges) + 1, [len(arrays.ts)]])


def _before(job: Job, arrays: EventArrays, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first event that each event may not follow."""
    number = np.arange(len(arrays.ts), dtype=np.int64)
    if job.plan.ties is not tree.Ties.STRICT or len(number) < 2:
        return number
    new = np.ones(len(number), np.bool_)
    new[1:] = np.diff(arrays.ts) != 0
    new[bounds[:-1]] = True
    return np.asarray(np.maximum.accumulate(np.where(new, number, 0)))


def count_trends(trends: Trends, parts: int, threads: int | None = None) -> NDArray[np.complex128]:
    """Return what every segment adds up to: (segment, part) wide numbers."""
    segments = len(trends.bounds) - 1
    if not segments:
        return np.zeros((0, parts), np.complex128)
    simulated = find_device()[0] is Found.SIMULATOR
    threads = threads or (8 if simulated else THREADS)
    weights = trends.weights if len(trends.weights) else np.zeros((1, 1))
    arrays = (trends.earlier, trends.later, trends.before, weights, trends.bounds)
    there = [cuda.to_device(np.ascontiguousarray(array)) for array in arrays]
    numbers = cuda.device_array((len(trends.ts), parts, 2), np.float64)
    totals = cuda.device_array((segments, parts, 2), np.float64)
    trend_kernel(trends.operator, parts, threads)[segments, threads](*there, numbers, totals)
    return np.asarray(totals.copy_to_host().view(np.complex128)[..., 0])


def run_trends(job: Job, table: pa.Table, *, forced: bool) -> pa.Table | None:
    """Return the result of a query over a table in order, None if the CPU should do it."""
    keys = KeyTable(job.plan.partition.attributes)
    trends = read_trends(job, keys, table)
    if trends is None or not (forced or trends.is_worth_it()):
        return None
    first = trends.bounds[:-1]
    window: Any = np.full(len(first), LONG_AGO, np.int64)
    if job.plan.window.kind is WindowKind.TUMBLING:
        within = job.plan.window.within
        window = trends.ts[first] // within * within
    numbers = count_trends(trends, len(job.parts))
    values = np.zeros((len(first), 0), np.int64)
    rows = Rows(trends.key[first], window, numbers, values)
    return build_table(job, [[rows]], keys, table.schema)
