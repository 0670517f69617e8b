"""The busiest task of live queries without partitions: ``python -m benchmarks.streaming_panes``.

One bucket does all that follows the sorting of events, so it bounds the rate of a stream on many
cores. With panes in K buckets the bound is the busiest of them, and the task that multiplies, or
pairs, what they made. The turns of all buckets run one after the other here, without Spark; CPU
time counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
from benchmarks.streaming import QUERIES, SECOND

import cepheid
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.panes import place_panes
from cepheid.jobs.work import Work
from cepheid.spark.schema import result_schema_of

BATCH_ROWS = 1_250_000
BATCH_SECONDS = 10
DELAY = SECOND

SITUATIONS = {
    "pairs": """DEFINE HIGH AS x > 0.9, LOW AS y < 0.1 PATTERN HIGH overlaps;before LOW
        WITHIN 20 ms""",
    "lasting": """DEFINE HIGH AS y > 0.6 AT LEAST 1 ms, LOW AS x < 0.01
        PATTERN HIGH overlaps;contains;finished by LOW
        DETECTED WITHIN 100 ms RETURN AVG(HIGH.x) AS x, COUNT(LOW) AS n""",
    "seldom": """DEFINE HIGH AS x > 0.9999, LOW AS x < 0.0001, CALM AS z > 0.5 AT LEAST 100 ms
        PATTERN HIGH meets;before LOW AND CALM contains;overlaps LOW WITHIN 1 s
        RETURN MAX(CALM.z) AS top""",
    "long": """DEFINE HIGH AS x > 0.9, LOW AS y < 0.1 PATTERN HIGH equals;starts LOW
        WITHIN 1 minute""",
}
"""Situations that begin often, that last and show their events so far, that begin seldom, and that
begin often in a long window: all of its stretches are sent in every micro-batch."""


def micro_batch(number: int) -> pa.Table:
    """Return the events of ten seconds, in order, as a task sends them."""
    random = np.random.default_rng(number)
    length = BATCH_SECONDS * SECOND
    return pa.table(
        {
            "ts": pa.array(number * length + np.sort(random.integers(0, length, BATCH_ROWS))),
            "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, BATCH_ROWS)]),
            "x": pa.array(random.random(BATCH_ROWS)),
            "y": pa.array(_walk(random, 1000)),
            "z": pa.array(_walk(random, 50_000)),
        }
    )


def _walk(random: np.random.Generator, length: int) -> np.ndarray:
    """Return values from 0 to 1 that rise and fall in so many events, or a bit more or less."""
    steps = random.random(BATCH_ROWS) * 2 / length
    return np.abs(np.cumsum(steps) % 2 - 1)


def run(text: str, batches: list[pa.Table], buckets: int) -> tuple[float, float, list[pa.Table]]:
    """Return seconds a million events of the busiest bucket and the last task, and the rows."""
    schema = batches[0].schema
    plan = cepheid.query(text).with_schema(schema).plan
    kind = task_kind(plan)
    work = Work.of(plan, schema, result_schema_of(plan, schema), buckets, delay=DELAY)
    data: dict[int, bytes] = {}
    busiest = last = 0.0
    rows = []
    for number, batch in enumerate(batches):
        times = batch["ts"].to_numpy()
        latest = int(times[-1])
        place = place_panes(times, needs_of(plan).pane or 1, buckets)
        parts = [batch.take(np.flatnonzero(place == b)) for b in range(buckets)]
        taken, given = [], []
        for bucket, part in enumerate(parts):
            job = live_job(work) if buckets == 1 else kind.pane_job(work)
            begin = time.process_time()
            data[bucket], outcome = turn(job, work, data.get(bucket), [part], latest)
            taken.append(time.process_time() - begin)
            given.append(outcome.results)
        closed = [table for table in given if len(table)]
        if buckets > 1 and closed:
            begin = time.process_time()
            closed = [kind.rows_of_panes(work, closed)]
            last += time.process_time() - begin if number else 0.0
        rows += closed
        # The first one loads the kernels.
        busiest += max(taken) if number else 0.0
    million = (len(batches) - 1) * BATCH_ROWS / 1e6
    return busiest / million, last / million, rows


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_numpy().astype(np.float64)


def main() -> None:
    """Print a line for each query and number of buckets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--queries", nargs="+")
    options = parser.parse_args()
    batches = [micro_batch(number) for number in range(1, options.batches + 1)]
    texts = {name: QUERIES[name] for name in ("whole", "sliding", "sums")} | SITUATIONS
    for name in options.queries or texts:
        first = None
        for buckets in options.buckets:
            busiest, last, tables = run(texts[name], batches, buckets)
            rows = pa.concat_tables(tables)
            counts = np.concatenate([_numbers(column) for column in rows.columns])
            first = counts if first is None else first
            print(
                f"{name:8}{buckets:>4} buckets  busiest {busiest:6.3f} s a million events, "
                f"then {last:6.3f} s  at most {1 / (busiest + last):7.1f} M events/s  "
                f"{len(rows):,} rows, same {np.allclose(counts, first, rtol=1e-9)}"
            )


if __name__ == "__main__":
    main()
