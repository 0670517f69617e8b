"""A program for ``test_spark_gpu.py``: queries in tasks to which Spark has given a GPU.

It starts a small cluster on this machine, since Spark gives tasks of its local mode no resources.
Prints a JSON object with the addresses that tasks had, the events that devices summarised, and the
rows of every strategy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.spark_options import options

import cepheid
from cepheid.plans.plan import TrendPlan

TEXT = (
    "RETURN key, COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key "
    "WITHIN 200 us SLIDE 100 us"
)
STRATEGIES = ("combine", "key shuffle")


def events() -> pa.Table:
    """Return events of two keys."""
    rng, length = np.random.default_rng(1), 300
    columns = {
        "ts": np.arange(length),
        "type": rng.choice(["A", "B"], length),
        "price": rng.integers(0, 9, length).astype(np.float64),
        "key": rng.choice(["x", "y"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def observe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell the address of the task's GPU, and how many events its device summarised."""
    from cepheid.kinds.trend.program.job import lower
    from cepheid.kinds.trend.tasks_on_gpu import summariser_of
    from cepheid.spark.task_device import task_address

    list(batches)
    table = events()
    summariser: Any = summariser_of(
        lower(TrendPlan.of(cepheid.query(TEXT).with_schema(table.schema).plan))
    )
    summariser.feed(table, last=True)
    done = summariser.scheduler.done["gpu"] if hasattr(summariser, "scheduler") else 0
    yield pa.RecordBatch.from_pydict({"address": [task_address()], "done": [done]})


def main(script: str) -> None:
    """Run everything on a cluster whose workers find GPUs by a script."""
    builder = SparkSession.builder.master("local-cluster[1,2,1024]")
    settings = {
        **options(),
        "spark.executor.memory": "512m",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": script,
        "spark.executor.resource.gpu.amount": "2",
        "spark.task.resource.gpu.amount": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        seen = spark.range(0, 2, 1, 2).mapInArrow(observe, "address string, done long").collect()
        frame = spark.createDataFrame(events().to_pandas()).repartitionByRange(2, "ts")
        rows = {
            strategy: [
                r.asDict() for r in cepheid.query(TEXT).run(frame, strategy=strategy).collect()
            ]
            for strategy in STRATEGIES
        }
    finally:
        spark.stop()
    sys.stdout.write(
        json.dumps({"seen": [list(row) for row in seen], "rows": rows}, default=str) + "\n"
    )


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
