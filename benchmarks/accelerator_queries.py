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
WINDOWS = {
    "windows without SLIDE, COUNT": f"RETURN LOG2(COUNT(*)) {TRENDS} WITHIN 1 ms",
    "windows without SLIDE, COUNT, SUM, MIN": "RETURN COUNT(*), SUM(A.small), MIN(A.price) "
    "PATTERN SEQ(A, B, C) WITHIN 100 us",
    "windows of 1,000 events": f"RETURN LOG2(COUNT(*)) {TRENDS} "
    "WITHIN 1000 EVENTS SLIDE 500 EVENTS",
    "windows of 10,000 events by key": "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] "
    "GROUP-BY key WITHIN 10000 EVENTS SLIDE 10000 EVENTS",
}
"""Windows whose columns the host reads; over fewer events."""

MATCHES = {
    "matches of two, a comparison": "RETURN a.ts, b.price PATTERN SEQ(A a, B b) "
    "WHERE a.price < b.price - 3 WITHIN 64 us",
    "matches of three, comparisons": "RETURN a.ts, c.ts AS last PATTERN SEQ(A a, B b, C c) "
    "WHERE a.price < b.price AND b.price < c.price WITHIN 16 us",
}
SWEEPS = {
    "SWEEP, 10^3 values": ("0.001 TO 1 STEP 0.001", 20),
    "SWEEP, 10^4 values": ("0.0001 TO 1 STEP 0.0001", 20),
    "SWEEP, 10^5 values": ("0.00001 TO 1 STEP 0.00001", 23),
}
SWEEP = "RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, B) WHERE A.price > SWEEP p ({}) WITHIN {w} SLIDE {w}"
SWEEP_WINDOW = "1 s"
SITUATIONS = {
    "situations of two conditions": "DEFINE High AS price > 0.5 AT LEAST 3 us, Low AS price < -1.0 "
    "SITUATIONS High, Low RETURN COUNT(High), MAX(High.price), SUM(Low.small)",
    "situations that overlap": "DEFINE High AS price > 0.2, Few AS small < 5 "
    "PATTERN High overlaps Few WITHIN 1 ms",
    "MATCH_RECOGNIZE, falling runs": "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts "
    "MEASURES FIRST(A.ts) AS began, COUNT(B.*) AS falls PATTERN (A B+ C) "
    "DEFINE B AS B.price < PREV(B.price), C AS C.price > PREV(C.price))",
}
"""Conditions are evaluated by the host where it is a row pattern; over fewer events."""

SELECTS = {
    "SELECT, filter, a tenth passes": "SELECT ts, price FROM s WHERE price > 1.2816 AND small < 9",
    "SELECT, windows of 2^16": "SELECT COUNT(*), SUM(small), MIN(price), MAX(price), AVG(price) "
    "FROM s WINDOW 65536 us",
    "SELECT, sliding, by 100 keys": "SELECT key, COUNT(*), SUM(small), MAX(price) FROM s "
    "GROUP BY key WINDOW 1 s SLIDE 100 ms",
}
LIVE_ROWS = 1 << 18
"""Events of a micro-batch."""

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


def measure_live(what: str, text: str, table: pa.Table) -> None:
    """Feed a live query on each device in micro-batches, the second time with warm kernels."""
    taken = {}
    for device in ("cpu", "gpu", "auto"):
        for _ in range(2):
            running = cepheid.query(text).live(table.schema, device=device)
            begin, rows = time.perf_counter(), 0
            for first in range(0, len(table), LIVE_ROWS):
                rows += len(running.feed(table.slice(first, LIVE_ROWS)))
            rows += len(running.close())
            taken[device] = time.perf_counter() - begin
    line(what, rows=str(rows), **{name: rate(len(table), t) for name, t in taken.items()})


class using:  # noqa: N801  # read as a word
    """Let Arrow, and with it the engine, use a number of threads."""

    def __init__(self, threads: int) -> None:
        self._threads, self._before = threads, pa.cpu_count()

    def __enter__(self) -> None:
        pa.set_cpu_count(self._threads)

    def __exit__(self, *_: object) -> None:
        pa.set_cpu_count(self._before)


def rate(events_: int, taken: float) -> str:
    value = events_ / taken / 1e6
    return f"{value:.0f} M/s" if value >= 10 else f"{value:.2f} M/s"


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
    few = table.slice(0, 1 << min(23, options.power))
    for what, text in (WINDOWS | MATCHES | SITUATIONS).items():
        if options.only in what:
            measure(what, text, few, options.runs, profile=options.profile)
    for what, (values, power) in SWEEPS.items():
        if options.only in what:
            text = SWEEP.format(values, w=SWEEP_WINDOW)
            own = table.slice(0, 1 << min(power, options.power))
            measure(what, text, own, options.runs, profile=options.profile)
    if options.only in "live":
        measure_live(
            "live SELECT, sliding, by 100 keys", SELECTS["SELECT, sliding, by 100 keys"], few
        )
        measure_live("live situations", SITUATIONS["situations of two conditions"], few)
    if options.only in "COUNT, types as text":
        measure("COUNT, types as text", PATTERNS["COUNT"], texts, options.runs,
                profile=options.profile)  # fmt: skip
    if options.only in "join":
        text, power = JOIN
        few = table.slice(0, 1 << min(power, options.power))
        measure(f"join, 2^{power} events, windows of 512", text, few, 1, profile=options.profile)


if __name__ == "__main__":
    main()
