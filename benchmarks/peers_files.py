"""From Parquet files to the answer beside DuckDB and chdb: ``python -m benchmarks.peers_files``.

    python -m benchmarks.peers_files --chdb PYTHON [--events 50000000] [--rounds 3]

Events of 1,000 keys lie in files of five million. Each system runs every query in a process of its
own, one after the other, in turns; the best round counts. DuckDB and chdb fold the ordered list of
types of every key and window, or use window functions; the faster of the two counts. The sums of
all counts must agree. PYTHON has chdb; this environment has DuckDB.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE_EVENTS, KEYS, WITHIN_US = 5_000_000, 1_000, 10_000_000
OURS = "RETURN key, COUNT(*) PATTERN {} WHERE [key] GROUP-BY key WITHIN 10 seconds SLIDE 10 seconds"
PATTERNS = {"plus": "SEQ(A+, B)", "seq": "SEQ(A, B, C)"}

_WINDOW = f"PARTITION BY key, ts // {WITHIN_US} ORDER BY ts ROWS UNBOUNDED PRECEDING"
_A = f"sum(CASE WHEN type = 'A' THEN 1 ELSE 0 END) OVER ({_WINDOW})"
_AB = f"sum(CASE WHEN type = 'B' THEN a ELSE 0 END) OVER ({_WINDOW})"
FILES = "[files]"


def _fold(step: str, start: str) -> str:
    """Write a query that folds the ordered types of every key and window."""
    inner = f"list_reduce(list(type ORDER BY ts), lambda s, x: {{{step}}}, {{{start}}}) AS r"
    return f"SELECT sum(r.c) FROM (SELECT {inner} FROM '{FILES}' GROUP BY key, ts // {WITHIN_US})"


DUCKDB = {
    "plus": (
        _fold(
            "'a': CASE WHEN x = 'A' THEN 2 * s.a + 1 ELSE s.a END, "
            "'c': CASE WHEN x = 'B' THEN s.c + s.a ELSE s.c END",
            "'a': 0::DOUBLE, 'c': 0::DOUBLE",
        ),
        "SELECT sum(CASE WHEN type = 'B' THEN pow(2, a) - 1 ELSE 0 END) FROM "
        f"(SELECT type, {_A} AS a FROM '{FILES}')",
    ),
    "seq": (
        _fold(
            "'a': CASE WHEN x = 'A' THEN s.a + 1 ELSE s.a END, "
            "'b': CASE WHEN x = 'B' THEN s.b + s.a ELSE s.b END, "
            "'c': CASE WHEN x = 'C' THEN s.c + s.b ELSE s.c END",
            "'a': 0::DOUBLE, 'b': 0::DOUBLE, 'c': 0::DOUBLE",
        ),
        f"SELECT sum(CASE WHEN type = 'C' THEN b ELSE 0 END) FROM (SELECT type, {_AB} AS b FROM "
        f"(SELECT key, ts, type, {_A} AS a FROM '{FILES}'))",
    ),
}
_ORDERED = "arrayMap(p -> p.2, arraySort(p -> p.1, groupArray((ts, type))))"
_GROUPS = f"FROM file('{FILES}', Parquet) GROUP BY key, intDiv(ts, {WITHIN_US})"
_SETTINGS = " SETTINGS group_by_two_level_threshold = 0, group_by_two_level_threshold_bytes = 0"
CHDB = {
    "plus": (
        "SELECT sum(r.2) FROM (SELECT arrayFold((s, x) -> (if(x = 'A', 2 * s.1 + 1, s.1), "
        f"if(x = 'B', s.2 + s.1, s.2)), {_ORDERED}, (toFloat64(0), toFloat64(0))) AS r {_GROUPS})"
        + _SETTINGS,
    ),
    "seq": (
        "SELECT sum(r.3) FROM (SELECT arrayFold((s, x) -> (if(x = 'A', s.1 + 1, s.1), "
        f"if(x = 'B', s.2 + s.1, s.2), if(x = 'C', s.3 + s.2, s.3)), {_ORDERED}, "
        f"(toFloat64(0), toFloat64(0), toFloat64(0))) AS r {_GROUPS})" + _SETTINGS,
    ),
}
SYSTEMS = ("Cepheid", "DuckDB", "chdb")


def write_files(folder: Path, count: int) -> None:
    """Write events in the order of time, five million in a file; types are text."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    drawn = np.random.default_rng(7)
    kinds = pa.array(["A", "B", "C"])
    for number, begin in enumerate(range(0, count, FILE_EVENTS)):
        rows = min(FILE_EVENTS, count - begin)
        kind: Any = pa.array(drawn.integers(0, 3, rows).astype(np.int8))
        columns: dict[str, Any] = {
            "ts": (begin + np.arange(rows)) * 600,
            "type": pa.DictionaryArray.from_arrays(kind, kinds).cast(pa.string()),
            "key": drawn.integers(0, KEYS, rows),
            "price": drawn.integers(0, 10_000, rows),
        }
        parquet.write_table(pa.table(columns), folder / f"{number:03}.parquet")


def run_cepheid(folder: Path, name: str) -> tuple[float, float]:
    """Return the seconds of one run, and the sum of all counts."""
    import pyarrow.compute as pc

    import cepheid

    query = cepheid.query(OURS.format(PATTERNS[name]))
    query.run(str(folder / "000.parquet"))  # Loads kernels.
    begun = time.perf_counter()
    rows: Any = query.run(f"{folder}/*.parquet")
    return time.perf_counter() - begun, float(pc.sum(rows["count"]).as_py())


def run_duckdb(folder: Path, name: str) -> tuple[float, float]:
    """Return the seconds of the faster query, and the sum of all counts."""
    import duckdb

    found = []
    for text in DUCKDB[name]:
        begun = time.perf_counter()
        asked: Any = duckdb.sql(text.replace(FILES, f"{folder}/*.parquet"))
        ((total,),) = asked.fetchall()
        found.append((time.perf_counter() - begun, float(total)))
    return min(found)


def run_chdb(folder: Path, name: str) -> tuple[float, float]:
    """Return the seconds of the faster query, and the sum of all counts."""
    import chdb  # type: ignore[import-not-found]  # of another environment

    found = []
    for text in CHDB[name]:
        begun = time.perf_counter()
        answer = str(chdb.query(text.replace(FILES, f"{folder}/*.parquet"), "CSV"))
        found.append((time.perf_counter() - begun, float(answer)))
    return min(found)


RUN = dict(zip(SYSTEMS, (run_cepheid, run_duckdb, run_chdb), strict=True))


def ask(python: str, system: str, folder: Path, name: str) -> tuple[float, float]:
    """Run a query in a process of its own."""
    command = [python, __file__, "--child", system, str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{system}, {name}: {done.stderr[-2000:]}")
    seconds, total = json.loads(done.stdout.splitlines()[-1])
    return seconds, total


def main() -> None:
    """Print a line for each query, with ratios."""
    if sys.argv[1:2] == ["--child"]:
        system, place, name = sys.argv[2:]
        print(json.dumps(RUN[system](Path(place), name)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chdb", required=True, help="a Python that has chdb")
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pythons = {"chdb": asked.chdb}
    print(f"| query | {', M events/s | '.join(SYSTEMS)}, M events/s | : DuckDB | : chdb |")
    print("|---" * (len(SYSTEMS) + 3) + "|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_files(folder, asked.events)
        for name, pattern in PATTERNS.items():
            best = dict.fromkeys(SYSTEMS, math.inf)
            totals = []
            for _ in range(asked.rounds):
                for system in SYSTEMS:
                    python = pythons.get(system, sys.executable)
                    seconds, total = ask(python, system, folder, name)
                    best[system] = min(best[system], seconds)
                    totals.append(total)
            assert max(totals) - min(totals) <= 1e-9 * max(totals), f"{name}: {totals}"
            rates = " | ".join(f"{asked.events / best[one] / 1e6:.1f}" for one in SYSTEMS)
            ratios = " | ".join(f"{best[one] / best['Cepheid']:.1f}" for one in SYSTEMS[1:])
            print(f"| {pattern} | {rates} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
