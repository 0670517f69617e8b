"""Queries by their text on a GPU, from Arrow to the result, beside one thread and all threads.

``PYTHONPATH=src python -m benchmarks.accelerator_queries`` on a machine with a GPU; ``--power 26``
sets the number of events, ``--profile`` adds where the host spends its time.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.accelerator_measure import line, seconds
from numba import cuda

import cepheid
from cepheid.accelerator.device import find_device
from cepheid.accelerator.uploading import Uploader

TRENDS = "PATTERN (SEQ(A+, B))+"
PATTERNS = {
    "COUNT": f"RETURN LOG2(COUNT(*)) {TRENDS}",
    "COUNT, SUM, MIN, AVG": "RETURN LOG2(COUNT(*)), SUM(A.small), MIN(A.price), AVG(A.price) "
    "PATTERN SEQ(A, B)",
    "sliding windows, COUNT": f"RETURN LOG2(COUNT(*)) {TRENDS} WITHIN 1 s SLIDE 100 ms",
    "sliding windows, COUNT, SUM, MIN": "RETURN COUNT(*), SUM(A.small), MIN(A.price) "
    "PATTERN SEQ(A, B) WITHIN 100 ms SLIDE 10 ms",
    "tumbling windows of 1,000": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 ms SLIDE 1 ms",
    "NOT under TIES strict": "RETURN LOG2(COUNT(*)) PATTERN SEQ(A, NOT C, B) WITHIN 1 s SLIDE 1 s",
    "an edge predicate, windows of 2^10": "RETURN COUNT(*) PATTERN A S+ "
    "WHERE S.price > NEXT(S).price WITHIN 1024 us SLIDE 1024 us",
}
SELECTS = {
    "SELECT, filter, a tenth passes": "SELECT ts, price FROM s WHERE price > 1.2816 AND small < 9",
    "SELECT, windows of 2^16": "SELECT COUNT(*), SUM(small), MIN(price), MAX(price), AVG(price) "
    "FROM s WINDOW 65536 us",
    "SELECT, sliding, by 100 keys": "SELECT key, COUNT(*), SUM(small), MAX(price) FROM s "
    "GROUP BY key WINDOW 1 s SLIDE 100 ms",
}
JOIN = (
    "SELECT a.ts, b.ts AS later FROM s a JOIN s b ON a.price - b.price > 6.5 WINDOW 512 us",
    18,
)


def events(length: int, *, texts: bool = False) -> pa.Table:
    """Return events of three types, a microsecond apart."""
    rng = np.random.default_rng(1)
    kinds: Any = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 3, length, np.int8)), pa.array(["A", "B", "C"])
    )
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(length)),
        "type": kinds.cast(pa.string()) if texts else kinds,
        "price": pa.array(rng.normal(size=length)),
        "small": pa.array(rng.integers(0, 10, length)),
        "key": pa.array(rng.integers(0, 100, length)),
    }
    return pa.table(columns)


def same(a: pa.Table, b: pa.Table) -> bool:
    """Compare two results; doubles within a relative error, which sums in another order have."""
    if a.schema != b.schema or len(a) != len(b):
        return False
    pairs = [(x.to_numpy(), y.to_numpy()) for x, y in zip(a.columns, b.columns, strict=True)]
    return all(
        np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True)
        if x.dtype.kind == "f"
        else bool((x == y).all())
        for x, y in pairs
    )


def measure(what: str, text: str, table: pa.Table, runs: int, *, profile: bool) -> None:
    """Run a query on the CPU, the GPU and by ``auto``, and print rates."""
    query, length = cepheid.query(text), len(table)
    begin = time.perf_counter()
    found = query.run(table, device="gpu")
    first = time.perf_counter() - begin
    taken = seconds(lambda: query.run(table, device="gpu"), runs)
    auto = seconds(lambda: query.run(table, device="auto"), 1)
    # The kernels of the CPU are compiled first, too.
    query.run(table.slice(0, 1 << 20))
    rates: dict[int, float] = {}
    expected = found
    for threads in (1, pa.cpu_count()):
        with using(threads):
            begin = time.perf_counter()
            expected = query.run(table)
            rates[threads] = time.perf_counter() - begin
    line(what, gpu=rate(length, taken), auto=rate(length, auto), first=f"{first:.1f} s",
         **{f"cpu_{n}": rate(length, t) for n, t in rates.items()},
         same=str(same(expected, found)))  # fmt: skip
    if profile:
        print_profile(lambda: query.run(table, device="gpu"))


class using:  # noqa: N801  # read as a word
    """Let Arrow, and with it the engine, use a number of threads."""

    def __init__(self, threads: int) -> None:
        self._threads, self._before = threads, pa.cpu_count()

    def __enter__(self) -> None:
        pa.set_cpu_count(self._threads)

    def __exit__(self, *_: object) -> None:
        pa.set_cpu_count(self._before)


def rate(events_: int, taken: float) -> str:
    return f"{events_ / taken / 1e6:.0f} M/s"


def print_profile(work: Callable[[], object], rows: int = 14) -> None:
    """Print the functions of the host that take most time themselves."""
    profile = cProfile.Profile()
    profile.runcall(work)
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(rows)
    lines = [text for text in out.getvalue().splitlines() if text.strip()]
    print("\n".join(text[:110] for text in lines[2 : rows + 4]), flush=True)


def upload(length: int) -> None:
    """Copy a column to the device, with several threads and sizes of pieces."""
    column = np.random.default_rng(1).random(length)
    target = cuda.device_array(length, np.float64)
    plain = seconds(lambda: target.copy_to_device(column))
    pinned = cuda.pinned_array(length, np.float64)
    pinned[:] = column
    link = seconds(lambda: target.copy_to_device(pinned))
    figures = {"plain": plain, "pinned": link}
    for threads in (1, 4, 8, 12, 16):
        for piece in (2, 8, 32):
            one = Uploader(threads, piece << 20)
            figures[f"{threads}x{piece}MiB"] = seconds(lambda u=one: u.put([[column]], [target]))
    right = bool((target.copy_to_host() == column).all())
    text = {name: f"{column.nbytes / taken / 1e9:.1f}" for name, taken in figures.items()}
    line("upload, GB/s", **text, same=str(right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--power", type=int, default=26)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(find_device(), pa.cpu_count(), "threads", flush=True)
    if options.only in "upload":
        upload(1 << options.power)
    table, texts = events(1 << options.power), events(1 << options.power, texts=True)
    for what, text in (PATTERNS | SELECTS).items():
        if options.only in what:
            measure(what, text, table, options.runs, profile=options.profile)
    if options.only in "COUNT, types as text":
        measure("COUNT, types as text", PATTERNS["COUNT"], texts, options.runs,
                profile=options.profile)  # fmt: skip
    if options.only in "join":
        text, power = JOIN
        few = table.slice(0, 1 << min(power, options.power))
        measure(f"join, 2^{power} events, windows of 512", text, few, 1, profile=options.profile)


if __name__ == "__main__":
    main()
