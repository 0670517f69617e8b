"""Funnels beside ClickHouse's: ``python -m benchmarks.funnel CHDB_PYTHON [EVENTS]``.

A funnel of three steps over events of 1,000 keys in one Parquet file, from the file to the answer,
and ``windowFunnel`` of chdb over the same file. Each runs in a process of its own, one after the
other, again and again; the best run of each counts. CHDB_PYTHON is the Python of an environment
that has chdb. ClickHouse gives the levels of keys; ours also the median and p90 of the times.
The bar: ours is not slower.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KEYS = 1_000
ROUNDS, RUNS = 2, 4
STEP_US = 100_000
WITHIN_S = 30 * 60
STEPS = ("view", "cart", "buy")


def write_events(path: Path, count: int) -> None:
    """Write events of random keys, a tenth of a second apart."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    drawn = np.random.default_rng(7)
    kinds = pa.array([*STEPS, "search"])
    kind = drawn.choice(4, count, p=[0.5, 0.15, 0.05, 0.3]).astype(np.int8)
    session = drawn.integers(0, KEYS, count).astype(np.int32)
    # Some keys never come far, so that the levels differ.
    kind[(kind == 1) & (session % 10 == 0)] = 3
    kind[(kind == 2) & (session % 4 == 1)] = 3
    names = pa.array([f"session-{n}" for n in range(KEYS)])
    table = pa.table(
        {
            "ts": pa.array(np.arange(count) * STEP_US, pa.int64()),
            "type": pa.DictionaryArray.from_arrays(pa.array(kind), kinds).cast(pa.string()),
            "session": pa.DictionaryArray.from_arrays(pa.array(session), names).cast(pa.string()),
            "number": pa.array(session.astype(np.int64)),
        }
    )
    parquet.write_table(table, path)


def run_ours(path: str, key: str) -> list[int]:
    """Count the keys of each step."""
    import cepheid

    steps = ", ".join(f"{name} {name[0]}" for name in STEPS)
    text = f"RETURN FUNNEL({key}) PATTERN SEQ({steps}) WITHIN {WITHIN_S} seconds"
    rows: Any = cepheid.query(text).run(path)
    return [row["keys"] for row in rows.to_pylist()]


def run_chdb(path: str, key: str) -> list[int]:
    """Count the keys of each step by the levels of windowFunnel; times strictly increase."""
    import chdb  # type: ignore[import-not-found]  # of another environment

    conditions = ", ".join(f"type = '{name}'" for name in STEPS)
    funnel = f"windowFunnel({WITHIN_S * 10**6}, 'strict_increase')(toUInt64(ts), {conditions})"
    inner = f"SELECT {funnel} AS level FROM file('{path}', Parquet) GROUP BY {key}"
    levels = ", ".join(f"countIf(level >= {n + 1})" for n in range(len(STEPS)))
    found = str(chdb.query(f"SELECT {levels} FROM ({inner})", "CSV"))
    return [int(number) for number in found.strip().split(",")]


def measure(which: str, path: str, key: str) -> None:
    """Print the seconds of the best run of this process, without the first, and its answer."""
    run = run_ours if which == "ours" else run_chdb
    answer, walls, spent = run(path, key), [], []
    for _ in range(RUNS):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = run(path, key)
        walls.append(time.perf_counter() - wall)
        spent.append(time.process_time() - cpu)
    print(json.dumps({"wall": min(walls), "cpu": min(spent), "answer": answer}))


def ask(python: str, which: str, path: Path, key: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [python, __file__, "--child", which, str(path), key]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a line for each kind of key."""
    if sys.argv[1:2] == ["--child"]:
        measure(*sys.argv[2:])
        return
    other = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
    print("| key | ours, M events/s | chdb, M events/s | ours / chdb | CPU s, ours, chdb |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        write_events(path, count)
        for key in ("session", "number"):
            best: dict[str, dict[str, Any]] = {}
            for _ in range(ROUNDS):
                for which, python in (("ours", sys.executable), ("chdb", other)):
                    found = ask(python, which, path, key)
                    if which not in best or found["wall"] < best[which]["wall"]:
                        best[which] = found
            ours, theirs = best["ours"], best["chdb"]
            assert ours["answer"] == theirs["answer"], f"{ours['answer']} {theirs['answer']}"
            ratio = theirs["wall"] / ours["wall"]
            lost = " **loses**" if ratio < 1 else ""
            speeds = " | ".join(f"{count / found['wall'] / 1e6:.1f}" for found in (ours, theirs))
            spent = f"{ours['cpu']:.2f}, {theirs['cpu']:.2f}"
            print(f"| {key} | {speeds} | {ratio:.2f}{lost} | {spent} |", flush=True)


if __name__ == "__main__":
    main()
