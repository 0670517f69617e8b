"""Decode stored bytes and settings into typed values, from any number of threads.

msgspec describes a class when it decodes it for the first time, and leaves a half-built description
where a second thread can find it: the process ends with a segmentation fault. So the first decoder
of a type is built under a lock.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, TypeVar, overload

import msgspec

Value = TypeVar("Value")
Data = bytes | memoryview | str

_lock = threading.Lock()


@overload
def from_json(data: Data, kind: type[Value]) -> Value: ...
@overload
def from_json(data: Data, kind: Any) -> Any: ...
def from_json(data: Data, kind: Any) -> Any:
    """Decode JSON as a type, or as one of several types.

    Raises
    ------
    msgspec.MsgspecError
        If the bytes are no JSON, or no value of the type.
    """
    return _json(kind).decode(data)


def from_msgpack(data: bytes | memoryview, kind: type[Value]) -> Value:
    """Decode MessagePack as a type.

    Raises
    ------
    msgspec.MsgspecError
        If the bytes are no MessagePack, or no value of the type.
    """
    decoded: Value = _msgpack(kind).decode(data)  # type: ignore[arg-type]  # a class has a hash
    return decoded


def from_values(values: Any, kind: type[Value]) -> Value:
    """Convert dicts, lists and plain values to a type.

    Raises
    ------
    msgspec.ValidationError
        If they are no value of the type.
    """
    _json(kind)  # type: ignore[arg-type]  # It describes the classes.
    return msgspec.convert(values, kind)


@functools.cache
def _json(kind: Any) -> Any:
    with _lock:
        return msgspec.json.Decoder(kind)


@functools.cache
def _msgpack(kind: Any) -> Any:
    with _lock:
        return msgspec.msgpack.Decoder(kind)
