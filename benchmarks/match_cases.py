"""One benchmark of matches in a process of its own: a name and a size in, a line of JSON out.

python -m benchmarks.match_cases v-shape ours 20
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.measure import forget_peak, peak_mb

EVENTS = 20_000
KEYS = 10
FALLING_EVENTS = 5_000_000
FALLING_KEYS = 100
BATCHES_READ = 20

QUERIES = {
    "v-shape": "RETURN MATCHES PATTERN SEQ(Tick a, Tick b+, Tick c) WHERE [key] "
    "AND a.price < b.price AND b.price < NEXT(b).price AND c.price < FIRST(b).price "
    "WITHIN {within} us",
    "big-after-small": "RETURN MATCHES PATTERN SEQ(Tick a, Tick b+) WHERE [key] AND a.price < 20 "
    "AND b.price > 100 AND 5 * a.price < NEXT(b).price WITHIN {within} us",
}

FALLING = """
    SELECT company, len, p0, p1 FROM ticks MATCH_RECOGNIZE (
        PARTITION BY company ORDER BY seq
        MEASURES COUNT(*) - 1 AS len, S.price AS p0, LAST(D.price) AS p1
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST D
        PATTERN (S D+ U) DEFINE D AS price < PREV(price), U AS price >= PREV(price)
    )"""


TREND = """
    RETURN company, s.price, d.price PATTERN SEQ(Tick u, Tick s, Tick d+, Tick e)
    SEMANTICS contiguous
    WHERE [company] AND u.price <= s.price AND s.price > d.price AND d.price > NEXT(d).price
      AND d.price <= e.price"""
"""The same in our language, but for runs at the very beginning of a company's events."""


def ticks(count: int, keys: int, query: str) -> dict[str, Any]:
    """Return events of keys in turn: random walks, or amounts of which few are large."""
    random = np.random.default_rng(11)
    key = np.arange(count) % keys
    if query == "v-shape":
        steps = random.integers(-3, 4, count).astype(np.float64)
        price = np.concatenate([1000 + np.cumsum(steps[key == k]) for k in range(keys)])
        price = price[np.argsort(np.argsort(key, kind="stable"), kind="stable")]
    else:
        price = np.round(random.lognormal(3.2, 1.2, count), 2)
    return {"ts": np.arange(count), "key": key, "price": price}


def falling_ticks(count: int = FALLING_EVENTS) -> pa.Table:
    """Return random walks of companies, a random one at a time."""
    random = np.random.default_rng(5)
    company = random.integers(0, FALLING_KEYS, count)
    order = np.argsort(company, kind="stable")
    walk = np.cumsum(random.integers(-3, 4, count)[order])
    starts = np.flatnonzero(np.diff(company[order], prepend=-1))
    base = np.repeat(walk[starts], np.diff(starts, append=count))
    price = np.empty(count, np.int64)
    price[order] = 1000 + walk - base
    columns: dict[str, Any] = {"seq": np.arange(count), "company": company, "price": price}
    return pa.table(columns)


def growing(query: str, method: str, size: int) -> Callable[[], dict[str, Any]]:
    """Return a run over windows of ``size`` events of a key."""
    events = ticks(EVENTS, KEYS, query)
    within = size * KEYS
    if method == "partial":
        from benchmarks.baselines.partial_matches import BIG_AFTER_SMALL, V_SHAPE, build_matches

        number = V_SHAPE if query == "v-shape" else BIG_AFTER_SMALL
        arrays = (events["key"], events["ts"], events["price"])
        build_matches(arrays[0][:100], arrays[1][:100], arrays[2][:100], number, 10)

        def partial() -> dict[str, Any]:
            built = build_matches(*arrays, number, within)
            return {"matches": built.matches, "partial": built.partial, "ok": built.is_complete}

        return partial
    import cepheid

    table = pa.table(events)
    compiled = cepheid.query(QUERIES[query].format(within=within))
    compiled.run(table.slice(0, 100))

    def ours() -> dict[str, Any]:
        return {"matches": sum(len(batch) for batch in compiled.matches(table)), "ok": True}

    return ours


def first_match(_query: str, _method: str, size: int) -> Callable[[], dict[str, Any]]:
    """Return a run that reads the first matches of the 2^size - 1 matches of A+."""
    import cepheid

    compiled = cepheid.query("RETURN MATCHES PATTERN A+")
    compiled.run(pa.table({"ts": [1], "type": ["A"]}))
    events = pa.table({"ts": range(size), "type": ["A"] * size})

    def run() -> dict[str, Any]:
        began = time.perf_counter()
        reader = compiled.matches(events)
        reader.read_next_batch()
        first = time.perf_counter() - began
        forget_peak()
        before_mb = peak_mb()
        rows = sum(len(reader.read_next_batch()) for _ in range(BATCHES_READ))
        grown_mb = peak_mb() - before_mb
        return {"matches": rows, "first_s": first, "grown_mb": grown_mb, "ok": True}

    return run


def falling(_query: str, method: str, size: int) -> Callable[[], dict[str, Any]]:
    """Return a run over the falling prices of ``size`` events: ours, or a rival if it is there."""
    table = falling_ticks(size)
    if method.startswith("spark"):
        from benchmarks.match_spark import prepare

        return prepare(table, is_ours=method == "spark")
    if method == "ours-trend":
        import cepheid

        compiled = cepheid.query(TREND, time="seq")
        compiled.run(table.slice(0, 1000))
        return lambda: {"matches": len(compiled.run(table)), "ok": True}
    if method == "ours":
        import cepheid

        cepheid.sql(FALLING, tables={"ticks": table.slice(0, 1000)})
        return lambda: _runs(cepheid.sql(FALLING, tables={"ticks": table}))
    from benchmarks.match_rivals import RIVALS

    return RIVALS[method](table)


def _runs(found: pa.Table) -> dict[str, Any]:
    lengths, tops, bottoms = (np.asarray(found[name]) for name in ("len", "p0", "p1"))
    check = [len(found), int(lengths.sum()), int((tops - bottoms).sum())]
    return {"matches": len(found), "check": check, "ok": True}


PREPARE = {
    "v-shape": growing,
    "big-after-small": growing,
    "first": first_match,
    "falling": falling,
}


def main() -> None:
    """Measure the case that the arguments name."""
    query, method, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = PREPARE[query](query, method, size)
    best: dict[str, Any] = {}
    for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 1):
        began, cpu = time.perf_counter(), time.process_time()
        found = run()
        found |= {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
        best = found if not best or found["seconds"] < best["seconds"] else best
    best["peak_mb"] = peak_mb()
    sys.stdout.write(json.dumps(best) + "\n")


if __name__ == "__main__":
    main()
