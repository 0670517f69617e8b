"""Facts about situations that are no race of methods: earliness, changing plans, cores of Spark.

python -m benchmarks.situation_facts early ours 1 1
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.situation_data import SECOND_US, make_flags
from pyarrow import parquet

import cepheid
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations

EVENTS = 1_000_000
STEP_EVENTS = 1 << 15
SPARK_EVENTS = 96_000_000


def early(shrink: int) -> dict[str, Any]:
    """Return by how much of its length a match is reported before its last end."""
    table = make_flags(EVENTS // shrink)
    text = "DEFINE A AS a, B AS b PATTERN A {0} B {1}WITHIN 1000 s"
    found: dict[str, Any] = {}
    for relation in ("before", "meets", "overlaps", "starts", "during", "finishes", "equals"):
        last = cepheid.query(text.format(relation, "")).run(table)
        first = cepheid.query(text.format(relation, "DETECTED ")).run(table)
        ends = {pair: end for *pair_, end in rows_of(last) for pair in [tuple(pair_)]}
        shares = [
            (ends[a, b] - when) / (ends[a, b] - min(a, b))
            for a, b, when in rows_of(first)
            if (a, b) in ends
        ]
        assert len(shares) == len(ends), "a match with WITHIN has DETECTED WITHIN too"
        found[f"{relation}: mean"] = float(np.mean(shares)) if shares else 0.0
        found[f"{relation}: least"] = float(np.min(shares)) if shares else 0.0
    return found


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(table[n].to_pylist() for n in ("A_ts", "B_ts", "ts")), strict=True))


def adapts(shrink: int) -> dict[str, Any]:
    """Return the time of every fixed plan and of the one that changes, while rates shift."""
    count = EVENTS // shrink
    parts = []
    for number, rates in enumerate(((1, 1, 1), (1, 50, 50), (50, 1, 50))):
        part = make_flags(count, seed=number, rates=rates)
        times = pa.array(np.arange(number * count, (number + 1) * count) * SECOND_US)
        parts.append(part.set_column(0, "ts", times))
    table = pa.concat_tables(parts).combine_chunks()
    text = "DEFINE A AS a, B AS b, C AS c PATTERN A before B AND A before C AND B before C "
    job = SituationJob(
        cepheid.query(f"{text} WITHIN 2000 s RETURN COUNT(A) AS n").with_schema(table.schema).plan
    )
    found: dict[str, Any] = {}
    orders = itertools.product(*([(1, 2), (2, 1)], [(0, 2), (2, 0)], [(0, 1), (1, 0)]))
    plans: dict[str, Any] = {str(order[2]): order for order in orders}  # C ends last and triggers.
    for name, plan in [*plans.items(), ("adaptive", None)]:
        times = [time_plan(job, table, plan) for _ in range(3)]
        found[f"{name}: cpu s"] = min(times)
    fixed = [seconds for name, seconds in found.items() if not name.startswith("adaptive")]
    found["adaptive / best fixed"] = found["adaptive: cpu s"] / min(fixed)
    return found


def time_plan(job: SituationJob, table: pa.Table, orders: Any) -> float:
    state = SituationState.start(job)
    if orders is not None:
        state = state._replace(tuning=state.tuning._replace(orders=orders, fixed=True))
    began = time.process_time()
    for offset in range(0, len(table), STEP_EVENTS):
        state, _ = step_situations(job, state, table.slice(offset, STEP_EVENTS))
    finish_situations(job, state, table.schema)
    return time.process_time() - began


def spark(cores: int, shrink: int) -> dict[str, Any]:
    """Return how long a stream without partitions takes on so many cores."""
    from cepheid.spark.session import session

    count = SPARK_EVENTS // shrink
    query = cepheid.query(
        "DEFINE A AS a, B AS b, C AS c, D AS d PATTERN A overlaps B AND C overlaps D "
        "AND B before C WITHIN 500 s RETURN COUNT(A) AS n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flags.parquet"
        parquet.write_table(make_flags(count), file, row_group_size=1 << 19)
        with session(f"local[{cores}]") as spark:
            seconds = []
            for _ in range(3):
                began = time.perf_counter()
                rows = query.run(str(file), spark=spark).count()
                seconds.append(time.perf_counter() - began)
    return {"events": f"{count:,}", "rows": rows, "seconds": round(min(seconds), 3)}


def main() -> None:
    """Print the facts that the arguments name."""
    part, shrink = sys.argv[1], int(sys.argv[3])
    if part.startswith("spark"):
        found = spark(int(part[-1]), shrink)
    else:
        found = {"early": early, "adapts": adapts}[part](shrink)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
