"""Convert schemas between Spark and Arrow, and select the columns that a query reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from cepheid.events.nanoseconds import is_nanoseconds
from cepheid.events.schema import ValueKind, read_schema
from cepheid.jobs.local_jobs import local_job
from cepheid.plans.plan import Plan
from cepheid.spark.versions import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def names_of(plan: Plan, columns: Iterable[str]) -> tuple[str, ...]:
    """List the columns that a plan reads; None in a plan means all of them."""
    return plan.columns if plan.columns is not None else tuple(columns)


def columns_of(frame: DataFrame, plan: Plan) -> dict[str, tuple[Column, ValueKind]]:
    """Select the columns that a plan reads; fields of structures become columns of their own."""
    # Listed events have whole structures as columns, and keys may be parts of them.
    names = dict.fromkeys((*names_of(plan, frame.columns), *plan.partition.attributes))
    schema = read_schema(frame.schema)
    assert schema is not None, "a DataFrame has a schema"
    return {name: (path_of(frame, name), schema.kind(name) or ValueKind.UNKNOWN) for name in names}


def path_of(frame: DataFrame, name: str) -> Column:
    """Return a column of a DataFrame, or a field of a structure in it."""
    path = [name] if name in frame.columns else name.split(".")
    return sf.col(".".join(f"`{part.replace('`', '``')}`" for part in path))


def projected_column(frame: DataFrame, name: str) -> Column:
    """Return a column of a projected DataFrame, or a field of a structure in it."""
    alias = alias_of(name)
    return sf.col(alias) if alias in frame.columns else path_of(frame, name)


def micros_of(time: Column, type_name: str) -> Column:
    """Convert times to whole microseconds, as the engine reads them; integers stay as they are."""
    if type_name == "timestamp_ntz":
        # Without a zone the clock's reading counts, as if it were UTC; no zone may come in here.
        seconds = sf.date_part(sf.lit("SECOND"), time) * sf.lit(1_000_000)
        minutes = sf.hour(time) * sf.lit(60) + sf.minute(time)
        days = sf.unix_date(time.cast("date")).cast("long")
        return (days * sf.lit(1440) + minutes) * sf.lit(60_000_000) + seconds.cast("long")
    if type_name == "timestamp":
        return sf.unix_micros(time)
    if type_name == "date":
        return sf.unix_date(time).cast("long") * sf.lit(86_400_000_000)
    return time.cast("long")


def alias_of(name: str) -> str:
    """Escape a column name for the way to a task, because Spark reads dots as fields."""
    return f"__{name.encode().hex()}" if "." in name or "`" in name else name


def arrow_schema_of(frame: DataFrame, names: Iterable[str]) -> pa.Schema:
    """Build the Arrow schema in which Spark passes columns, with their names in the query."""
    kinds = arrow_schema(frame.schema)
    return pa.schema([(name, kinds.field(alias_of(name)).type) for name in names])


def result_schema_of(plan: Plan, schema: pa.Schema) -> pa.Schema:
    """Build the schema of a plan's result, in types that Spark has."""
    return plain_schema(local_job(plan).nothing(schema).schema)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Convert a type to the nearest one that Spark has."""
    types = pa.types
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_unsigned_integer(kind):
        wider: dict[int, pa.DataType] = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}
        return wider.get(kind.bit_width, pa.decimal128(20, 0))
    if types.is_large_string(kind) or str(kind) == "string_view" or types.is_null(kind):
        return pa.string()
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_date(kind):
        return pa.date32()
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_float16(kind):
        return pa.float32()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    return kind


def file_schema(schema: pa.Schema) -> pa.Schema:
    """Build the schema that tasks read from files: types of Spark, and times in nanoseconds."""
    return pa.schema(
        [(f.name, f.type if is_nanoseconds(f.type) else plain_type(f.type)) for f in schema]
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to types that Spark has."""
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])


def spark_schema_of(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark DDL string."""
    converted = spark_schema(schema)
    return StructType([StructField(f.name, f.dataType, nullable=True) for f in converted.fields])
