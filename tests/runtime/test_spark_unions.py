"""Results that are part of a union: Spark numbers the tasks of both sides through."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cepheid

QUERIES = [
    "RETURN COUNT(*) AS n PATTERN SEQ(A x, A y) WITHIN 3 seconds",
    "RETURN COUNT(*) AS n PATTERN SEQ(A+, B) WITHIN 4 seconds SLIDE 2 seconds",
    "RETURN COUNT(*) AS n PATTERN A a+ WHERE a.v > NEXT(a).v WITHIN 4 seconds SLIDE 2 seconds",
]


@pytest.mark.spark
@pytest.mark.parametrize("text", QUERIES)
def test_both_sides_of_a_union_have_all_rows(spark: SparkSession, text: str) -> None:
    random = np.random.default_rng(4)
    count = 400
    events = pa.table(
        {
            "ts": pa.array(np.arange(count) * 700_000, pa.timestamp("us", "UTC")),
            "type": [str(one) for one in random.choice(["A", "B"], count)],
            "v": pa.array(random.integers(0, 9, count)),
        }
    )
    query = cepheid.query(text)
    wanted = Counter(str(row) for row in query.run(events).to_pylist())
    rows = query.run(spark.createDataFrame(events).repartition(3))
    found = Counter(str(row) for row in rows.union(rows).toArrow().to_pylist())
    assert found == Counter({row: 2 * times for row, times in wanted.items()})
