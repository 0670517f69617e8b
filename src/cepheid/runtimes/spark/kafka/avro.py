"""Values in Avro: a schema in, an Arrow type and a decoder out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cepheid.runtimes.kafka.clients import extra, fail
from cepheid.runtimes.spark.kafka.registry import HEADER_BYTES, Registry, schema_id

Decode = Callable[[bytes], dict[str, Any]]

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def read_schema(text: str) -> dict[str, Any]:
    """Parse a schema, which has to be a record.

    Raises
    ------
    DataError
        E565.
    """
    library = extra("fastavro", "fastavro", "kafka")
    try:
        found = json.loads(text)
        parsed: Any = library.parse_schema(found)
    except (ValueError, library.schema.SchemaParseException) as error:
        fail("E565", f"the Avro schema cannot be read: {error}")
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        fail("E565", "the Avro schema of a value is a record")
    return dict(parsed)


def columns_of_avro(schema: dict[str, Any]) -> pa.Schema:
    """Convert a record to the columns of events.

    Raises
    ------
    DataError
        E565 for a type that no column has, such as a union of several types.
    """
    return pa.schema(list(_record(schema, {})))


def _record(schema: dict[str, Any], named: dict[str, Any]) -> pa.StructType:
    named[str(schema["name"])] = schema
    return pa.struct([(f["name"], _type(f["type"], named)) for f in schema["fields"]])


def _type(schema: Any, named: dict[str, Any]) -> pa.DataType:
    found = _known_type(schema, named)
    if found is None:
        fail("E565", f"no column has the Avro type {json.dumps(schema, default=str)[:100]}")
    return found


def _known_type(schema: Any, named: dict[str, Any]) -> pa.DataType | None:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) == 1:
            return _type(others[0], named)
    elif isinstance(schema, str) and schema in _PLAIN:
        return _PLAIN[schema]
    elif isinstance(schema, str) and schema in named:
        return _type(named[schema], named)
    elif isinstance(schema, dict):
        kind, logical = schema["type"], schema.get("logicalType", "")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind == "record":
            return _record(schema, named)
        if kind in ("enum", "fixed"):
            named[str(schema["name"])] = schema
            return pa.string() if kind == "enum" else pa.binary()
        if kind == "array":
            return pa.list_(_type(schema["items"], named))
        if kind == "map":
            return pa.map_(pa.string(), _type(schema["values"], named))
        return _type(kind, named)
    return None


def avro_decoder(text: str, registry: str | None, *, wire: bool) -> Decode:
    """Build the decoder of values: those of other schemas are converted to this one.

    The schema of a value comes from the registry by the id in its header; without a registry it
    is the given one.
    """
    library = extra("fastavro", "fastavro", "kafka")
    reader = read_schema(text)
    known = Registry(registry) if registry else None
    writers: dict[int, dict[str, Any]] = {}

    def decode(value: bytes) -> dict[str, Any]:
        writer = reader
        if wire:
            number = schema_id(value)
            if number not in writers:
                writers[number] = read_schema(known.by_id(number)) if known else reader
            writer = writers[number]
        data = io.BytesIO(value[HEADER_BYTES:] if wire else value)
        found: dict[str, Any] = library.schemaless_reader(data, writer, reader)
        if data.read(1):
            message = "bytes follow the value"
            raise ValueError(message)
        return found

    return decode
