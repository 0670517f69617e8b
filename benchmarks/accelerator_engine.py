"""Queries on a GPU from Arrow to the result: workloads, and trends with a comparison."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from benchmarks.accelerator_measure import device_seconds, line, seconds
from numba import cuda

import cepheid
from cepheid.accelerator.kernels.trends import trend_kernel
from cepheid.accelerator.schedule import Pace, Place
from cepheid.arrays.columns import KeyTable
from cepheid.kinds.trend.device import trends as device_trends
from cepheid.kinds.trend.device.split import run_split
from cepheid.kinds.trend.program.job import lower


def workloads() -> None:
    """Sixteen queries over the same events: side by side on the device, and from Arrow."""
    length = 10**7
    rng = np.random.default_rng(1)
    names = [f"T{n}" for n in range(4)]
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 4, length, np.int8)), pa.array(names)
    )
    table = pa.table({"ts": np.arange(length), "type": kinds})
    pairs = [(a, b) for a in names for b in names if a != b]
    texts = [f"RETURN LOG2(COUNT(*)) PATTERN (SEQ({a}+, {b}))+" for a, b in pairs]
    texts += [f"RETURN LOG2(COUNT(*)) PATTERN SEQ({a}, {b}+)" for a, b in pairs[:4]]
    for count in (1, 2, 4, 8, 16):
        w = cepheid.workload(texts[:count])
        cpu = seconds(lambda w=w: w.run(table), 1)
        gpu = seconds(lambda w=w: w.run(table, device="gpu"), 3)
        a, b = w.run(table).to_pylist(), w.run(table, device="gpu").to_pylist()
        right = all(
            np.isclose(x["log2_count"], y["log2_count"], rtol=1e-9)
            for x, y in zip(a, b, strict=True)
        )
        line(f"workload of {count} queries, 10^7 events from Arrow",
             cpu=f"{length / cpu / 1e6:.1f} M/s", gpu=f"{length / gpu / 1e6:.1f} M/s",
             ratio=f"{cpu / gpu:.1f}", same=str(right))  # fmt: skip


def trends() -> None:
    """Falling prices in tumbling windows of many lengths."""
    length = 1 << 22
    rng = np.random.default_rng(1)
    kinds = pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int8)), pa.array(["Stock"]))
    table = pa.table({"ts": np.arange(length), "type": kinds, "price": rng.random(length)})
    for power, overlap in ((8, 1), (10, 1), (12, 1), (14, 1), (16, 1), (10, 8), (12, 8)):
        q = cepheid.query(
            "RETURN COUNT(*), SUM(S.price) PATTERN Stock S+ WHERE S.price > NEXT(S).price "
            f"WITHIN {1 << power} us SLIDE {(1 << power) // overlap} us"
        )
        cpu = seconds(lambda q=q: q.run(table), 1)
        gpu = seconds(lambda q=q: q.run(table, device="gpu"), 3)
        a, b = q.run(table), q.run(table, device="gpu")
        right = all(np.allclose(a[name], b[name], rtol=1e-9) for name in ("count", "sum_S_price"))
        job = lower(q.with_schema(table.schema).plan)
        read = device_trends.read_trends(job, KeyTable(()), table)
        assert read is not None
        parts = len(job.parts)
        begin, end, _ = read.segments
        arrays = (
            read.earlier, read.later, read.before, read.weights, begin, end,
            np.cumsum(end - begin) - (end - begin),
        )  # fmt: skip
        there = [cuda.to_device(np.ascontiguousarray(array)) for array in arrays]
        segments = len(begin)
        numbers = cuda.device_array((int((end - begin).sum()), parts, 2), np.float64)
        totals = cuda.device_array((segments, parts, 2), np.float64)
        rates = {}
        for threads in (128, 256, 512):
            kernel = trend_kernel(read.operator, parts, threads)
            taken = device_seconds(
                lambda k=kernel, t=threads, a=(*there, numbers, totals), n=segments: k[n, t](*a)
            )
            rates[f"kernel_{threads}"] = f"{length / taken / 1e6:.0f} M/s"
        line(f"COUNT, SUM of falling prices, 2^22 events, windows of 2^{power}, {overlap} at once",
             cpu=f"{length / cpu / 1e6:.1f} M/s", gpu=f"{length / gpu / 1e6:.1f} M/s",
             ratio=f"{cpu / gpu:.1f}", same=str(right), auto=str(read.is_worth_it()),
             **rates)  # fmt: skip


def split() -> None:
    """COUNT, SUM and MIN from Arrow: lanes of the CPU, lanes of the GPU, and both places."""
    length = 1 << 24
    table = _priced(length)
    q = cepheid.query("RETURN LOG2(COUNT(*)), MIN(A.price), AVG(A.price) PATTERN (SEQ(A+, B))+")
    plan = q.with_schema(table.schema).plan
    cpu = seconds(lambda: q.run(table), 1)
    expected = q.run(table)
    line("COUNT, MIN, AVG, 2^24 events from Arrow, one thread", rate=_rate(length, cpu))
    lanes: list[dict[Place, int]] = [
        {Place.CPU: 1},
        {Place.CPU: 8},
        {Place.GPU: 1},
        {Place.GPU: 2},
        {Place.GPU: 4},
        {Place.CPU: 1, Place.GPU: 2},
        {Place.CPU: 4, Place.GPU: 2},
        {Place.CPU: 8, Place.GPU: 2},
    ]
    for own in lanes:
        # What the first run measured of both places is known to the next ones.
        pace, found = Pace(own), []
        taken = seconds(lambda p=pace, f=found: f.append(run_split(plan, [table], table.schema, p)))
        line(f"lanes { {k.value: v for k, v in own.items()} }",
             rate=_rate(length, taken), ratio=f"{cpu / taken:.1f}",
             on_gpu=f"{pace.done.get(Place.GPU, 0) / sum(pace.done.values()):.2f}",
             rows=str({k.value: pace.rows(k) for k in own}),
             same=str(all(_same(expected, one) for one in found)))  # fmt: skip
    large = _priced(1 << 27)
    expected = q.run(large)
    for device in ("cpu", "gpu", "auto"):
        taken = seconds(lambda d=device: q.run(large, device=d), 1)
        line(f"2^27 events from Arrow, q.run with device={device}", rate=_rate(1 << 27, taken),
             same=str(_same(expected, q.run(large, device=device))))  # fmt: skip


def _priced(length: int) -> pa.Table:
    rng = np.random.default_rng(1)
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 2, length, np.int8)), pa.array(["A", "B"])
    )
    return pa.table({"ts": np.arange(length), "type": kinds, "price": rng.normal(size=length)})


def _rate(events: int, taken: float) -> str:
    return f"{events / taken / 1e6:.1f} M/s"


def _same(expected: pa.Table, found: pa.Table) -> bool:
    """Compare the only row of two results."""
    a, b = expected.to_pylist()[0], found.to_pylist()[0]
    return all(np.isclose(a[name], b[name], rtol=1e-6) for name in a)
