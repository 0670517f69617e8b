"""The columns of derived events before any event is there: a type of Arrow for every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

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
    return pa.schema(list(_nested(list(schema.columns), "")))


def _nested(columns: Sequence[Column], prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    """Yield columns with their types; those with dotted names behind a structure are its fields."""
    place = 0
    while place < len(columns):
        column = columns[place]
        place, inner = place + 1, f"{column.name}."
        fields = []
        if column.kind is ValueKind.OTHER:
            fields = list(takewhile(lambda one: one.name.startswith(inner), columns[place:]))  # noqa: B023  # taken at once
        place += len(fields)
        kind = pa.struct(list(_nested(fields, inner))) if fields else _type_of(column)
        yield column.name.removeprefix(prefix), kind


def _type_of(column: Column) -> pa.DataType:
    return pa.timestamp("ns", "UTC") if column.nanoseconds else _TYPES[column.kind]
