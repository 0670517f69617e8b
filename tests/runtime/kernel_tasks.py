"""Run a query on a cluster whose executors have an empty cache of kernels; print what they saved.

python -m tests.runtime.kernel_tasks FOLDER_OF_EXECUTORS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import cepheid
from cepheid.kernels import cache
from cepheid.kernels.tiers import Tier, forced
from cepheid.spark.kernels import ship_kernels

TEXT = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 10 s SLIDE 10 s"


def main(folder: str) -> None:
    query, events = cepheid.query(TEXT), table()
    with forced(Tier.COMPILE):
        expected = query.run(events).to_pylist()
    session = (
        SparkSession.builder.master("local-cluster[1,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.executorEnv.CEPHEID_CACHE", folder)
        .config("spark.executorEnv.CEPHEID_KERNELS", "compile")
        .getOrCreate()
    )
    rows = [row.asDict() for row in query.run(session.createDataFrame(events)).collect()]
    own = cache.folder()
    assert own is not None, "the driver has a cache"
    found = {
        "same": sorted(map(str, map(plain, rows))) == sorted(map(str, map(plain, expected))),
        "shipped": ship_kernels(session),
        "driver": sorted(path.name for path in own.glob("*-entry-*")),
        "executor": sorted(path.name for path in Path(folder).rglob("*-entry-*")),
    }
    session.stop()
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def plain(row: dict[str, object]) -> list[object]:
    return [row["key"], row["count"]]


def table() -> pa.Table:
    times = pa.array([n * 100_000 for n in range(600)], pa.timestamp("us"))
    types = ["A" if n % 3 else "B" for n in range(600)]
    return pa.table({"ts": times, "type": types, "key": [n % 7 for n in range(600)]})


if __name__ == "__main__":
    main(sys.argv[1])
