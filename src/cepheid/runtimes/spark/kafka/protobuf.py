"""Values in Protobuf: a descriptor in, an Arrow type and a decoder out.

A descriptor is what ``protoc --include_imports --descriptor_set_out=FILE`` writes, or what a schema
registry has. Messages are classes made from it, and no code is generated.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cepheid.runtimes.kafka.clients import extra, fail
from cepheid.runtimes.spark.kafka.registry import HEADER_BYTES, schema_id

Decode = Callable[[bytes], dict[str, Any]]

_STAMP = "google.protobuf.Timestamp"


def descriptor_of_registry(text: str) -> bytes:
    """Convert a schema of a registry, a descriptor in base64, to a descriptor set."""
    proto = _proto()
    try:
        one = proto.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, _decode_error()):
        fail("E565", "the registry has no descriptor of Protobuf")
    return bytes(proto.FileDescriptorSet(file=[one]).SerializeToString())


def message_class(data: bytes, name: str) -> Any:
    """Make the class of a message; without a name, that of the first one.

    Raises
    ------
    DataError
        E565 if the descriptor cannot be read or has no such message.
    """
    proto = _proto()
    pool = extra("google.protobuf.descriptor_pool", "protobuf", "kafka").DescriptorPool()
    well_known = extra("google.protobuf.timestamp_pb2", "protobuf", "kafka").DESCRIPTOR
    try:
        files = proto.FileDescriptorSet.FromString(data).file
        if well_known.name not in {one.name for one in files}:
            pool.AddSerializedFile(well_known.serialized_pb)
        for one in files:
            pool.Add(one)
        if not name:
            last = files[-1]
            prefix = f"{last.package}." if last.package else ""
            name = prefix + last.message_type[0].name
        found = pool.FindMessageTypeByName(name)
    except (_decode_error(), TypeError, KeyError, IndexError) as error:
        help_ = "write it with protoc --include_imports --descriptor_set_out=FILE"
        message = f"the descriptor has no message `{name}`" if name else "the descriptor is empty"
        fail("E565", f"{message}: {error}", help_)
    return extra("google.protobuf.message_factory", "protobuf", "kafka").GetMessageClass(found)


def _proto() -> Any:
    return extra("google.protobuf.descriptor_pb2", "protobuf", "kafka")


def _decode_error() -> Any:
    return extra("google.protobuf.message", "protobuf", "kafka").DecodeError


def columns_of_protobuf(message: Any) -> pa.Schema:
    """Convert a message to the columns of events.

    Raises
    ------
    DataError
        E565 for messages that contain themselves.
    """
    return pa.schema(list(_struct(message.DESCRIPTOR, ())))


def _struct(descriptor: Any, inside: tuple[str, ...]) -> pa.StructType:
    if descriptor.full_name in inside:
        fail("E565", f"the message `{descriptor.full_name}` contains itself")
    outer = (*inside, descriptor.full_name)
    return pa.struct([(field.name, _type(field, outer)) for field in descriptor.fields])


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _type(field: Any, inside: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_single(key, inside), _single(value, inside))
    one = _single(field, inside)
    return pa.list_(one) if field.is_repeated else one


def _single(field: Any, inside: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        if field.message_type.full_name == _STAMP:
            return pa.timestamp("us", "UTC")
        return _struct(field.message_type, inside)
    kinds: dict[int, pa.DataType] = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]
    return pa.binary() if field.type == field.TYPE_BYTES else pa.string()


def protobuf_decoder(message: Any, *, wire: bool) -> Decode:
    """Build the decoder of values; unset fields are NULL where Protobuf can tell."""

    def decode(value: bytes) -> dict[str, Any]:
        return _values(message.FromString(_after_header(value) if wire else value))

    return decode


def _after_header(value: bytes) -> bytes:
    """Skip the id of the schema, and the place of the message in it: numbers, their count first."""
    schema_id(value)
    at, numbers = HEADER_BYTES, 1
    while numbers:
        number, shift = 0, 0
        while True:
            byte = value[at]
            at, number, shift = at + 1, number | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        # The numbers are zigzag-coded; a count of zero stands for the first message.
        numbers = numbers - 1 if at > HEADER_BYTES + 1 else number >> 1
    return value[at:]


def _values(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return [(key, _plain(one, inner)) for key, one in value.items()]
    if field.is_repeated:
        return [_plain(one, field) for one in value]
    return _plain(value, field)


def _plain(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _STAMP:
            return value.seconds * 1_000_000 + value.nanos // 1000
        return _values(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
