"""The size of a cluster and of a DataFrame, as far as Spark tells without reading events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHUFFLE_PARTITIONS_DEFAULT = "200"
UNKNOWN_BYTES = 1 << 60
"""Spark's size of a DataFrame about which it knows nothing is larger."""


def given_tasks(spark: SparkSession) -> int | None:
    """Return the number of shuffle partitions, if the user set it."""
    wanted = spark.conf.get("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS_DEFAULT)
    return int(wanted) if wanted is not None and wanted != SHUFFLE_PARTITIONS_DEFAULT else None


def cores_of(spark: SparkSession) -> int:
    """Count the tasks that run at the same time."""
    if is_connect(spark):
        given = given_tasks(spark)
        if given is not None:
            return given
        # Spark Connect shows no context; a range has as many partitions as there are cores.
        numbers = spark.range(1 << 20).select(sf.spark_partition_id().alias("n"))
        return max(1, numbers.distinct().count())
    return int(spark.sparkContext.defaultParallelism)


def known_bytes(frame: DataFrame) -> int | None:
    """Return Spark's estimate of the size of a DataFrame; None if it has none."""
    local: Any = getattr(frame, "_jdf", None)
    if local is None:
        return None
    size = int(str(local.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < UNKNOWN_BYTES else None
