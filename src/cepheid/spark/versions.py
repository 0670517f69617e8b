"""Differences between the versions of Spark that Cepheid supports, each with its reason.

Nothing else asks for a version of Spark: other modules call what is here, and get the same answer
from every version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import functions as sf
from pyspark.sql.pandas import types as arrow_types

from cepheid.spark.installed import release
from cepheid.spark.murmur import values_for_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


INSTALLED = release(pyspark.__version__)
"""The release of PySpark here; a Connect server must be as new as its client."""

_STREAMING = "org.apache.spark.sql.execution.streaming"
# Spark 4.1 moved the classes of checkpoints to a package of their own.
_CHECKPOINTS = _STREAMING if INSTALLED < (4, 1) else f"{_STREAMING}.checkpointing"
LOCAL_CHECKPOINTS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
)
"""For checkpoints on a local disk, where Spark's own choice starts a process for every file."""


def is_connect(spark: SparkSession) -> bool:
    """Check whether a session is a Spark Connect session, without a local JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def arrow_schema(schema: StructType, zone: str | None = "UTC") -> pa.Schema:
    """Convert a Spark schema to Arrow, with the given zone of timestamps.

    Spark 4.2 names the zone in the call; before, the zone of the schema is always UTC.
    """
    convert: Any = arrow_types.to_arrow_schema
    if INSTALLED >= (4, 2):
        converted: pa.Schema = convert(schema, timezone=zone)
        return converted
    return in_zone(convert(schema), zone)


def in_zone(schema: pa.Schema, zone: str | None) -> pa.Schema:
    """Replace the zone of all timestamps of a schema that have one."""
    return pa.schema([field.with_type(_type_in_zone(field.type, zone)) for field in schema])


def _type_in_zone(kind: Any, zone: str | None) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz else kind
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_zone(kind.value_type, zone)))
    if types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        named: Any = pa.map_
        return named(
            key.with_type(_type_in_zone(key.type, zone)),
            item.with_type(_type_in_zone(item.type, zone)),
        )
    if types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_zone(field.type, zone)) for field in kind])
    return kind


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark; timestamps without a zone stay without one.

    Before Spark 4.2 they would get the zone of the session.
    """
    return arrow_types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def repartition_by_id(frame: DataFrame, count: int, name: str) -> DataFrame:
    """Send each row to the partition whose number is in a column of integers.

    Spark 4.1 has an operator for it. Spark 4.0 can only hash a value, so each number is replaced by
    a value whose hash leads to its partition.
    """
    if INSTALLED >= (4, 1):
        return frame.repartitionById(count, name)
    values = sf.array(*(sf.lit(value) for value in values_for_partitions(count)))
    return frame.repartition(count, sf.element_at(values, sf.col(name) + 1))
