"""What a GPU does beside one thread and all threads of the CPU on the same machine.

``PYTHONPATH=src python -m benchmarks.accelerator [--only part ...]`` on a machine with a GPU.
Device times are taken by events of the device, the median of several runs; data is on the device
already unless a line says otherwise. Every result is compared with that of the CPU.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.accelerator_engine import split, trends, workloads
from benchmarks.accelerator_measure import device_seconds, line, seconds
from benchmarks.thesis_operators import launches, operators, streams
from benchmarks.thesis_operators.compiling import aggregate_compiled
from benchmarks.thesis_operators.filtering import HostFilter, pinned
from benchmarks.thesis_operators.operators import Bounds, Work
from benchmarks.thesis_operators.persistent import PersistentCounter
from numba import cuda, get_num_threads

import cepheid
from cepheid.accelerator import linear
from cepheid.accelerator.device import find_device
from cepheid.accelerator.systems import system_of
from cepheid.arrays.columns import value_keys
from cepheid.events.schema import ValueKind
from cepheid.expressions.vectors import Vector
from cepheid.kinds.trend.device.run import run_columns
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.linear_state import Events, LinearRun
from cepheid.kinds.trend.windows.summaries import Summary

TRENDS = "PATTERN (SEQ(A+, B))+"


def compiled(aggregates: str) -> tuple[Any, linear.DeviceSystem]:
    schema = {"ts": "int", "type": "string", "price": "double"}
    job = lower(cepheid.query(f"RETURN {aggregates} {TRENDS}", schema=schema).plan)
    program = job.programs[0]
    system = system_of(program, *job.columns_of(program))
    assert system is not None
    return job, linear.DeviceSystem(system)


def codes_of(job: Any, length: int) -> np.ndarray[Any, Any]:
    """Return random codes of A and B, one byte each."""
    table = job.byte_codes(job.programs[0])
    return table[np.random.default_rng(1).integers(1, 3, length, np.uint8)]


def cpu_matrix(job: Any, codes: Any, weights: Any, values: Any) -> tuple[float, Summary]:
    """Summarise with the CPU's kernels, one thread; return seconds and the result's vector."""
    program = job.programs[0]
    run = LinearRun(program, job.plan.window, job.columns_of(program), 0)
    run.grow(1)
    ts = np.zeros(len(codes), np.int64)
    key = np.zeros(len(codes), np.int64)
    events = Events(ts, key, codes, weights, values, grouped=False)
    few = slice(0, 100_000)
    warm = Events(ts[few], key[few], codes[few], weights[:, few], values[:, few], grouped=False)
    other = LinearRun(program, job.plan.window, job.columns_of(program), 0)
    other.grow(1)
    other.feed(warm)
    begin = time.perf_counter()
    run.feed(events)
    taken = time.perf_counter() - begin
    (rows,) = run.flush(2**61)
    return taken, rows


def count_of(device: linear.DeviceSystem, matrix: Any, job: Any) -> complex:
    """Return the count that a matrix stands for: the start's column, rows that count."""
    counts = job.programs[0].tables().counts
    starts = device.system.starts
    found = [matrix[starts + q, 0, 0] for q in np.flatnonzero(counts)]
    assert len(found) == 1, "one configuration counts here"
    return complex(found[0])


def close(a: complex, b: complex) -> bool:
    return abs(np.log2(abs(a.real)) + a.imag - np.log2(abs(b.real)) - b.imag) < 1e-6


def counting() -> None:
    """Count over 10^9 events of one byte."""
    job, device = compiled("COUNT(*)")
    length = 10**9
    codes = codes_of(job, length)
    sizes = linear.default_sizes()
    words = cuda.to_device(codes.view(np.uint64))
    flags = cuda.to_device(np.zeros(1, np.int32))
    for chunks in (132 * 512, 132 * 1024, 132 * 2048, 132 * 4096):
        for threads in (128, 256):
            cut = linear.Sizes(threads, chunks, 64)
            out = device.count(words, cut, flags)
            taken = device_seconds(
                lambda cut=cut, out=out: device.count(words, cut, flags, out=out)
            )
            line(f"count kernel, {chunks} chunks, {threads} threads",
                 rate=f"{length / taken / 1e9:.0f} G/s")  # fmt: skip

    room = device.count(words, sizes, flags)

    def whole() -> Any:
        found = device.count(words, sizes, flags, out=room)
        return device.multiply(found, np.array([len(found.numbers)]), sizes)

    taken = device_seconds(whole)
    matrix = whole().numbers.copy_to_host().view(np.complex128)[0, ..., 0]
    nothing = np.zeros((0, length))
    cpu, rows = cpu_matrix(job, codes, nothing, nothing.astype(np.int64))
    right = close(count_of(device, matrix, job), complex(rows.numbers[0, 0]))
    line("COUNT, 10^9 resident events, with the tree of products",
         rate=f"{length / taken / 1e9:.0f} G/s", cpu=f"{length / cpu / 1e6:.0f} M/s one thread",
         ratio=f"{cpu / taken:.0f}", same=str(right),
         narrow=str(flags.copy_to_host()[0]))  # fmt: skip


def sums() -> None:
    """Count, sum and find the least over 10^9 events with a float column."""
    job, device = compiled("COUNT(*), SUM(A.price), MIN(A.price)")
    sizes = linear.default_sizes()
    short = 10**7
    codes = codes_of(job, short)
    price = np.random.default_rng(2).normal(size=short)
    rows = [price if part.what == "sum" else np.ones(short) for part in job.parts[1:]]
    weights = np.vstack([*rows, np.zeros(short)])
    keys = value_keys(Vector(price, None, ValueKind.DOUBLE), largest=False)
    values = np.vstack([keys, np.full(short, linear.NO_VALUE)])
    cpu, found = cpu_matrix(job, codes, weights, values)
    numbers, least = linear.summarise(device, codes, weights, values, np.array([0, short]))
    q = device.system.starts + int(np.flatnonzero(job.programs[0].tables().counts)[0])
    right = all(close(a, b) for a, b in zip(numbers[0, q, :, 0], found.numbers[0], strict=True))
    right = right and least[0, q, 0, 0] == found.values[0, 0]
    repeat = int(os.environ.get("REPEAT", "100"))
    length = short * repeat
    d_codes = cuda.device_array(length, np.uint8)
    d_weights = cuda.device_array((len(rows), length), np.float64)
    d_values = cuda.device_array((1, length), np.int64)
    for n in range(repeat):
        part = slice(n * short, (n + 1) * short)
        d_codes[part].copy_to_device(codes)
        for a, row in enumerate(rows):
            d_weights[a][part].copy_to_device(row)
        d_values[0][part].copy_to_device(keys)
    flags = cuda.to_device(np.zeros(1, np.int32))
    events = (d_codes, d_weights, d_values)
    for chunks in (132 * 1024, 132 * 4096):
        ptr, counts = linear.cut(np.array([0, length]), linear.Sizes(128, chunks, 64))
        d_ptr = cuda.to_device(ptr)
        room = device.empty(len(ptr) - 1)
        plain = device.multiply(
            device.aggregate(events, d_ptr, sizes, flags, wide=False), counts, sizes
        ).numbers.copy_to_host()
        for name, work in sum_kernels(device, events, d_ptr, flags, room).items():

            def whole(work: Any = work, counts: Any = counts) -> Any:
                return device.multiply(work(), counts, sizes)

            same = np.allclose(plain, whole().numbers.copy_to_host(), rtol=1e-6)
            taken = device_seconds(whole)
            line(f"COUNT, SUM, MIN, {chunks} chunks, {name}",
                 rate=f"{length / taken / 1e9:.1f} G/s", same_at_10_7=str(right),
                 same_as_tables=str(same), ratio=f"{cpu * repeat / taken:.0f}",
                 narrow=str(flags.copy_to_host()[0]))  # fmt: skip


def sum_kernels(
    device: linear.DeviceSystem, events: Any, ptr: Any, flags: Any, room: Any
) -> dict[str, Callable[[], Any]]:
    """Return the kernels that sum, by name: tables, or one made for the query; ways of reading."""
    found: dict[str, Callable[[], Any]] = {}

    def tables(columns: int) -> Any:
        linear.COLUMNS_MAX = columns
        sizes = linear.Sizes(128, 0, 64)
        return device.aggregate(events, ptr, sizes, flags, wide=False, out=room)

    def compiled_in(threads: int) -> Any:
        sizes = linear.Sizes(threads, 0, 64)
        return aggregate_compiled(device, events, ptr, sizes, flags, out=room)

    for columns in (3, 1):
        found[f"tables, {columns} columns a thread"] = lambda c=columns: tables(c)
    for threads in (128, 256):
        found[f"compiled, {threads} threads"] = lambda t=threads: compiled_in(t)
    return found


def link() -> None:
    """Count codes that lie in pinned memory of the host."""
    job, device = compiled("COUNT(*)")
    length = 1 << 30
    host = streams.pinned(length)
    host[:] = np.tile(codes_of(job, 1 << 24), length >> 24)
    target = cuda.device_array(length, np.uint8)
    copy = device_seconds(lambda: target.copy_to_device(host))
    line("link, pinned memory to the device", rate=f"{length / copy / 1e9:.1f} GB/s")
    words = host.view(np.uint64)
    for batch in (1 << 21, 1 << 23, 1 << 25):
        taken = seconds(lambda batch=batch: streams.count_from_host(device, words, batch))
        line(f"COUNT from pinned memory, batches of {batch * 8 >> 20} MiB",
             rate=f"{length / taken / 1e9:.1f} G/s", of_link=f"{copy / taken:.2f}")  # fmt: skip
    matrix, right = streams.count_from_host(device, words)
    flags = cuda.to_device(np.zeros(1, np.int32))
    found = device.count(cuda.to_device(words), linear.default_sizes(), flags)
    found = device.multiply(found, np.array([len(found.numbers)]), linear.default_sizes())
    other = found.numbers.copy_to_host().view(np.complex128)[0, ..., 0]
    same = close(count_of(device, matrix, job), count_of(device, other, job))
    line("the same matrix", same=str(same), reached=str(right))


def small() -> None:
    """Count batches of 4,096 events, from the host and back."""
    job, device = compiled("COUNT(*)")
    codes = codes_of(job, 4096)
    counter = streams.SmallCounter(device, 4096)
    for _ in range(20):
        counter.count(codes)
    taken = []
    for _ in range(2000):
        begin = time.perf_counter()
        matrix = counter.count(codes)
        taken.append(time.perf_counter() - begin)
    nothing = np.zeros((0, 4096))
    _, rows = cpu_matrix(job, codes, nothing, nothing.astype(np.int64))
    right = close(count_of(device, matrix, job), complex(rows.numbers[0, 0]))
    taken.sort()
    line("batch of 4,096 events, round trip", median=f"{taken[1000] * 1e6:.0f} us",
         p99=f"{taken[1980] * 1e6:.0f} us", same=str(right))  # fmt: skip


def mailbox() -> None:
    """Count batches of 4,096 events with a kernel that stays on the device."""
    job, device = compiled("COUNT(*)")
    codes = codes_of(job, 4096)
    expected = streams.SmallCounter(device, 4096).count(codes)
    for chunk in (2, 4, 8, 16):
        with PersistentCounter(device, 4096, chunk) as counter:
            taken = []
            for _ in range(2000):
                begin = time.perf_counter()
                matrix = counter.count(codes)
                taken.append(time.perf_counter() - begin)
        taken.sort()
        right = close(count_of(device, matrix, job), count_of(device, expected, job))
        line(f"batch of 4,096 events, kernel that stays, {chunk * 8} events a thread",
             median=f"{taken[1000] * 1e6:.1f} us", p99=f"{taken[1980] * 1e6:.1f} us",
             same=str(right))  # fmt: skip


def arrow() -> None:
    """Count from an Arrow table to the result table."""
    length = 10**8
    rng = np.random.default_rng(1)
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 2, length, np.int8)), pa.array(["A", "B"])
    )
    table = pa.table({"ts": np.arange(length), "type": kinds})
    for aggregates in ("LOG2(COUNT(*))",):
        q = cepheid.query(f"RETURN {aggregates} {TRENDS}")
        cpu = seconds(lambda q=q: q.run(table), 2)
        gpu = seconds(lambda q=q: q.run(table, device="gpu"), 3)
        a, b = q.run(table).to_pylist()[0], q.run(table, device="gpu").to_pylist()[0]
        right = all(np.isclose(a[n], b[n], rtol=1e-9) for n in a)
        job = lower(q.with_schema(table.schema).plan)
        line(f"Arrow to result, 10^8 events, {aggregates}", cpu=f"{length / cpu / 1e6:.0f} M/s",
             gpu=f"{length / gpu / 1e6:.0f} M/s", ratio=f"{cpu / gpu:.1f}", same=str(right),
             read_there=str(run_columns(job, table, untied=True) is not None))  # fmt: skip


def above(columns: Any, i: Any) -> Any:
    return columns[0, i] > 0.5


def near(left: Any, i: Any, right: Any, j: Any) -> Any:
    return abs(left[0, i] - right[0, j]) < 0.0005


def one(columns: Any, i: Any) -> Any:
    return columns[0, i] == 0.0


def second(left: Any, i: Any, right: Any, j: Any) -> Any:
    return (right[0, j] == 1.0) & (abs(left[1, i] - right[1, j]) < 0.0005)


ONE, ALL = Work(), Work(parallel=True)


def compare(what: str, work: Callable[[Work], Any], resident: Callable[[], Any], unit: float,
            name: str, same: Callable[[Any, Any], bool]) -> None:  # fmt: skip
    """Print rates and ratios of one thread, all threads, the device with copies and without."""
    expected = work(ONE)
    right = same(expected, work(Work("gpu"))) and same(expected, work(ALL))
    times = [seconds(lambda w=w: work(w), 1) for w in (ONE, ALL)]
    copied = seconds(lambda: work(Work("gpu")))
    gpu = device_seconds(resident)
    line(what, one=f"{unit / times[0] / 1e9:.2f}", all=f"{unit / times[1] / 1e9:.2f}",
         copied=f"{unit / copied / 1e9:.1f}", gpu=f"{unit / gpu / 1e9:.1f} G {name}/s",
         ratio_one=f"{times[0] / gpu:.0f}", ratio_all=f"{times[1] / gpu:.1f}",
         copied_one=f"{times[0] / copied:.0f}", same=str(right))  # fmt: skip


def both_same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]))


def filters() -> None:
    for power in (16, 20, 24, 27):
        columns = np.random.default_rng(1).random((1, 1 << power))
        there = cuda.to_device(columns)
        room = cuda.device_array(1 << power, np.int64)
        compare(f"filter, 2^{power} events of 8 bytes, half pass (bytes)",
                lambda w, c=columns: operators.filter_events(c, above, w),
                lambda t=there, r=room: launches.filter_on_device(t, above, 128, r),
                columns.nbytes, "bytes", np.array_equal)  # fmt: skip


def links() -> None:
    """Filter events in pinned memory: copied in, compacted, and only rows copied back."""
    length = 1 << 27
    columns = pinned((1, length), np.float64)
    columns[:] = np.random.default_rng(1).random((1, length))
    rows = pinned((length,), np.int64)
    target = cuda.device_array(length, np.float64)
    copy = device_seconds(lambda: target.copy_to_device(columns[0]))
    line("link, pinned memory to the device", rate=f"{columns.nbytes / copy / 1e9:.1f} GB/s")
    expected = np.flatnonzero(columns[0] > 0.5)
    for batch in (1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24):
        for slots in (2, 3, 4, 6):
            once = HostFilter(above, 1, np.float64, batch=batch, slots=slots)
            right = np.array_equal(once.run(columns, rows), expected)
            taken = seconds(lambda o=once: o.run(columns, rows), 5)
            line(f"filter of pinned memory, half pass, batches of {batch >> 17} MiB, {slots} slots",
                 rate=f"{columns.nbytes / taken / 1e9:.1f} GB/s",
                 of_link=f"{copy / taken:.2f}", same=str(right))  # fmt: skip


def windows() -> None:
    values = np.random.default_rng(1).random(1 << 22)
    there = cuda.to_device(values)
    for power in (10, 14, 17, 20):
        for function in ("sum", "min"):
            bounds = operators.count_windows(len(values), 1 << power, 4096)
            low, high = cuda.to_device(bounds.low), cuda.to_device(bounds.high)
            out = cuda.device_array(len(bounds.low), np.float64)
            number = operators.FUNCTIONS[function]
            unit = float((bounds.high - bounds.low).sum())
            for incremental in (False, True):
                compare(
                    f"{function}, window 2^{power}, "
                    + ("incremental" if incremental else "re-evaluating"),
                    lambda w, b=bounds, f=function, i=incremental: operators.aggregate(
                        values, b, f, w, incremental=i
                    ),
                    lambda lo=low, hi=high, o=out, n=number, i=incremental: (
                        launches.fold_on_device(there, lo, hi, o, n, 256, incremental=i)
                    ),
                    unit, "values", np.allclose,
                )  # fmt: skip


def joins() -> None:
    rng = np.random.default_rng(1)
    for power in (13, 16, 19):
        left, right = rng.random((1, 2048)), rng.random((1, 1 << power))
        bounds = Bounds(np.zeros(2048, np.int64), np.full(2048, 1 << power))
        there = (cuda.to_device(left), cuda.to_device(right), cuda.to_device(np.arange(2048)))
        compare(f"join, 2048 probes, window 2^{power}, one pair in 1000",
                lambda w, lf=left, r=right, b=bounds: operators.join(lf, r, b, near, w),
                lambda t=there, b=bounds: launches.join_on_device(*t, b, near, 128),
                2048.0 * (1 << power), "pairs", both_same)  # fmt: skip


def patterns() -> None:
    rng = np.random.default_rng(1)
    for power in (11, 14, 17):
        waiting, new = 1 << power, 2048
        kinds = np.repeat([0.0, 1.0], [waiting, new])
        columns = np.vstack([kinds, rng.random(waiting + new)])
        rows = np.arange(waiting)
        bounds = Bounds(np.full(waiting, waiting), np.full(waiting, waiting + new))
        there = cuda.to_device(columns)
        d_rows = cuda.to_device(rows)
        compare(f"SEQ(A, B), 2^{power} partial matches, 2048 events of B",
                lambda w, c=columns, b=bounds, r=rows: operators.join(c, c, b, second, w, r),
                lambda t=there, b=bounds, r=d_rows: launches.join_on_device(
                    t, t, r, b, second, 128
                ),
                float(waiting) * new, "pairs", both_same)  # fmt: skip


PARTS = (
    counting, sums, workloads, trends, split, link, small, mailbox, arrow, filters, links, windows,
    joins, patterns,
)  # fmt: skip


def main() -> None:
    print(find_device(), os.cpu_count(), "cores,", get_num_threads(), "threads", flush=True)
    wanted = [name for name in sys.argv[1:] if name != "--only"]
    for part in PARTS:
        if not wanted or part.__name__ in wanted:
            begin = time.perf_counter()
            try:
                part()
            except Exception:
                traceback.print_exc()
            print(f"  ({part.__name__}: {time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
