"""The columns of derived events before any event is there: a type of Arrow for every kind."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cepheid.events.schema import Column, EventSchema, ValueKind
from cepheid.jobs.kind import kind_of
from cepheid.kinds.pipeline.inputs import event_schema, input_schema
from cepheid.plans.plan import StagePlan

_TYPES: dict[ValueKind, pa.DataType] = {
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.DOUBLE: pa.float64(),
    ValueKind.DECIMAL: pa.decimal128(38, 9),
    ValueKind.TEXT: pa.string(),
    ValueKind.TIMESTAMP: pa.timestamp("us", "UTC"),
    ValueKind.DATE: pa.date32(),
    ValueKind.DURATION: pa.duration("us"),
    ValueKind.OTHER: pa.list_(pa.null()),
    ValueKind.UNKNOWN: pa.null(),
}


def event_columns(
    stage: StagePlan, schemas: Mapping[int, EventSchema], time: str, type_column: str
) -> pa.Schema:
    """Compute the schema of the events that a stage makes of events of other schemas.

    Raises
    ------
    BindError
        E355 if a column has different types in the streams that a pattern reads.
    """
    known = {place: _arrow_schema(schema) for place, schema in schemas.items()}
    read = input_schema(stage, known, time, type_column)
    rows = kind_of(stage.plan).stage_steps(stage.plan, read).nothing().schema
    return event_schema(stage, time, type_column, rows)


def _arrow_schema(schema: EventSchema) -> pa.Schema:
    """Build a schema of Arrow with the same kinds of columns."""
    return pa.schema([(column.name, _type_of(column)) for column in schema.columns])


def _type_of(column: Column) -> pa.DataType:
    return pa.timestamp("ns", "UTC") if column.nanoseconds else _TYPES[column.kind]
