"""Messages in, events out: the values of JSON, Avro or Protobuf become columns.

A value that cannot be read is a row too, with its bytes, origin and the reason, as
`cepheid.spark.records` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from cepheid.errors import CepheidError
from cepheid.runtimes.kafka.clients import fail
from cepheid.runtimes.spark.kafka.avro import Decode, avro_decoder, columns_of_avro, read_schema
from cepheid.runtimes.spark.kafka.protobuf import (
    columns_of_protobuf,
    descriptor_of_registry,
    message_class,
    protobuf_decoder,
)
from cepheid.runtimes.spark.kafka.registry import Registry
from cepheid.spark.records import ORIGIN, RAW, REASON, parse_json
from cepheid.spark.versions import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORMATS = ("json", "avro", "protobuf", "raw")
KEPT = ("key", "topic", "partition", "offset", "timestamp", "headers")
"""Columns of a message that an event may keep, with an underscore before the name."""


class Coding(NamedTuple):
    """The encoding of values, with all that a worker needs to read them."""

    format: str
    schema: bytes
    message: str = ""
    registry: str | None = None
    wire: bool = False

    def decoder(self) -> Decode:
        """Build the function that reads one value."""
        if self.format == "avro":
            return avro_decoder(self.schema.decode(), self.registry, wire=self.wire)
        return protobuf_decoder(message_class(self.schema, self.message), wire=self.wire)

    def columns(self) -> pa.Schema:
        """Return the columns of the events."""
        if self.format == "avro":
            return columns_of_avro(read_schema(self.schema.decode()))
        return columns_of_protobuf(message_class(self.schema, self.message))


def json_events(raw: DataFrame, columns: str, keep: Sequence[str]) -> DataFrame:
    """Read JSON objects with these columns."""
    wanted = StructType.fromDDL(columns)
    assert isinstance(wanted, StructType)
    return parse_json(raw, sf.col("value"), _origin(), wanted, _kept(keep))


def coded_events(raw: DataFrame, coding: Coding, keep: Sequence[str]) -> DataFrame:
    """Read values of Avro or Protobuf."""
    columns = coding.columns()
    shown = sf.base64(sf.col("value")).alias(RAW)
    inputs = raw.select(sf.col("value"), shown, _origin().alias(ORIGIN), *_kept(keep))
    wanted = spark_schema(columns)
    for name in (RAW, ORIGIN, REASON):
        wanted = wanted.add(name, StringType())
    for field in inputs.schema.fields[3:]:
        wanted = wanted.add(field)
    return inputs.mapInArrow(_decode_task(coding, columns), wanted)


def _origin() -> Column:
    return sf.concat_ws("/", "topic", "partition", "offset")


def _kept(keep: Sequence[str]) -> list[Column]:
    return [sf.col(name).alias(f"_{name}") for name in keep]


def _decode_task(
    coding: Coding, columns: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode = coding.decoder()
        for batch in batches:
            yield decoded(batch, decode, columns)

    return run


def decoded(batch: pa.RecordBatch, decode: Decode, columns: pa.Schema) -> pa.RecordBatch:
    """Decode the first column of a batch; the record and other columns follow."""
    values = batch.column(0).to_pylist()
    rows: list[dict[str, Any] | None] = []
    reasons: list[str | None] = []
    for value in values:
        row, reason = _read(value, decode)
        rows.append(row)
        reasons.append(reason)
    struct = pa.struct(list(columns))
    events = _events(rows, reasons, struct)
    record = [batch.column(1), batch.column(2), pa.array(reasons, pa.string())]
    names = [*columns.names, RAW, ORIGIN, REASON, *batch.schema.names[3:]]
    arrays = [*events.flatten(), *record, *batch.columns[3:]]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _read(value: bytes | None, decode: Decode) -> tuple[dict[str, Any] | None, str | None]:
    if value is None:
        return None, "the record is empty"
    try:
        return decode(value), None
    except CepheidError:
        raise  # The registry, and not the value, is at fault.
    except Exception as error:  # A library may raise anything at bytes that it does not know.
        return (
            None,
            f"the value does not fit its schema: {str(error)[:200] or type(error).__name__}",
        )


def _events(
    rows: list[dict[str, Any] | None], reasons: list[str | None], struct: pa.StructType
) -> Any:
    """Convert rows to columns; a row that does not fit them gets a reason."""
    try:
        return pa.array(rows, struct)
    except (pa.ArrowException, TypeError, ValueError):
        for place, row in enumerate(rows):
            try:
                pa.array([row], struct)
            except (pa.ArrowException, TypeError, ValueError) as error:
                rows[place], reasons[place] = None, f"the value does not fit the columns: {error}"
        return pa.array(rows, struct)


def coding_of(
    form: str, topic: str, schema: str | None, registry: str | None, message: str
) -> Coding:
    """Find the schema of values: the newest of the registry, or the one in a file.

    Raises
    ------
    DataError
        E565 if there is none.
    """
    wire = registry is not None
    if registry is not None:
        try:
            text = Registry(registry).latest(topic, serialized=form == "protobuf")
        except CepheidError:
            # A file will do while the registry does not answer.
            if schema is None:
                raise
        else:
            data = text.encode() if form == "avro" else descriptor_of_registry(text)
            return Coding(form, data, message, registry, wire)
    if schema is None:
        fail("E565", f"values of {form} need a schema", "name a registry, or a file")
    try:
        return Coding(form, Path(schema).read_bytes(), message, None, wire)
    except OSError as error:
        fail("E565", f"could not read {schema}: {error.strerror}")
