"""Values of Avro and Protobuf: columns, decoding, schema registries, and what cannot be read."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cepheid.errors import DataError
from cepheid.runtimes.spark.kafka.protobuf import message_class
from cepheid.runtimes.spark.kafka.values import Coding, coding_of, decoded

fastavro = pytest.importorskip("fastavro", reason="no fastavro: `make dev` installs it")

LOGIN: dict[str, Any] = {
    "type": "record",
    "name": "Login",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "type", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
NEWER = LOGIN | {"fields": [*LOGIN["fields"], {"name": "level", "type": "int", "default": 7}]}


def avro(schema: dict[str, Any], row: dict[str, Any], number: int | None = None) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), row)
    header = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return header + data.getvalue()


def read(coding: Coding, values: list[bytes | None]) -> list[dict[str, Any]]:
    strings = pa.array([""] * len(values))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), strings, strings], names=["value", "_raw", "_origin"]
    )
    return decoded(batch, coding.decoder(), coding.columns()).to_pylist()


@contextmanager
def registry(answers: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Run a schema registry with these answers."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found or {}).encode())

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_avro_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "login.avsc"
    file.write_text(json.dumps(LOGIN))
    coding = coding_of("avro", "logins", str(file), None, "")
    assert coding.columns().types == [
        pa.timestamp("us", "UTC"), pa.string(), pa.string(), pa.list_(pa.string())
    ]  # fmt: skip
    row = {"ts": 1_000, "type": "B", "user": "ann", "tags": ["x"]}
    good, short, long, empty = read(
        coding, [avro(LOGIN, row), b"\x02", avro(LOGIN, row) + b"!", None]
    )
    assert (good["ts"].timestamp(), good["type"], good["user"], good["tags"]) == (
        1,
        "B",
        "ann",
        ["x"],
    )
    assert good["_reason"] is None
    assert "does not fit its schema" in short["_reason"]
    assert "bytes follow" in long["_reason"]
    assert empty["_reason"] == "the record is empty"
    file.write_text('"string"')
    with pytest.raises(DataError, match="E565"):
        coding_of("avro", "logins", str(file), None, "").columns()
    file.write_text(json.dumps(LOGIN | {"fields": [{"name": "u", "type": ["int", "string"]}]}))
    with pytest.raises(DataError, match="no column has the Avro type"):
        coding_of("avro", "logins", str(file), None, "").columns()


def test_avro_by_a_registry(tmp_path: Path) -> None:
    answers: dict[str, dict[str, Any]] = {
        "/subjects/logins-value/versions/latest": {"id": 2, "schema": json.dumps(NEWER)},
        "/schemas/ids/1": {"schema": json.dumps(LOGIN)},
        "/schemas/ids/2": {"schema": json.dumps(NEWER)},
    }
    row = {"ts": 0, "type": "A", "user": None, "tags": []}
    with registry(answers) as url:
        coding = coding_of("avro", "logins", None, url, "")
        old, new, plain = read(
            coding, [avro(LOGIN, row, 1), avro(NEWER, row | {"level": 9}, 2), avro(LOGIN, row)[:3]]
        )
        assert [old["level"], new["level"]] == [7, 9]
        assert "no header" in plain["_reason"]
        # A schema that the registry does not have is no fault of the value.
        with pytest.raises(DataError, match="E565"):
            read(coding, [avro(LOGIN, row, 3)])
        with pytest.raises(DataError, match="E565"):
            coding_of("avro", "trades", None, url, "")
    # It does not answer any more: the file has the schema, and values still have a header.
    file = tmp_path / "login.avsc"
    file.write_text(json.dumps(LOGIN))
    (found,) = read(coding_of("avro", "logins", str(file), url, ""), [avro(LOGIN, row, 1)])
    assert found["type"] == "A"


def descriptor() -> Any:
    pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = pb2.FileDescriptorProto(name="login.proto", package="logs", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    message = file.message_type.add(name="Login")
    field = pb2.FieldDescriptorProto
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    stamp = ".google.protobuf.Timestamp"
    message.field.add(name="ts", number=1, type=field.TYPE_MESSAGE, type_name=stamp, label=one)
    message.field.add(
        name="type", number=2, type=field.TYPE_ENUM, type_name=".logs.Kind", label=one
    )
    message.field.add(name="user", number=3, type=field.TYPE_STRING, label=one)
    message.field.add(name="level", number=4, type=field.TYPE_UINT64, label=one)
    message.field.add(name="tags", number=5, type=field.TYPE_STRING, label=many)
    entry = message.nested_type.add(name="SizesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=field.TYPE_DOUBLE, label=one)
    name = ".logs.Login.SizesEntry"
    message.field.add(name="sizes", number=6, type=field.TYPE_MESSAGE, type_name=name, label=many)
    return file


def test_protobuf_by_a_file_and_a_registry(tmp_path: Path) -> None:
    pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    whole = pb2.FileDescriptorSet(file=[descriptor()]).SerializeToString()
    file = tmp_path / "login.desc"
    file.write_bytes(whole)
    login = message_class(whole, "")()
    login.ts.seconds, login.type, login.user, login.level = 5, 1, "ann", 1 << 63
    login.tags.append("x")
    login.sizes["s"] = 1.5
    value = login.SerializeToString()
    coding = coding_of("protobuf", "logins", str(file), None, "logs.Login")
    good, bad = read(coding, [value, b"\xff"])
    assert good["ts"].timestamp() == 5
    assert (good["type"], good["user"], int(good["level"])) == ("B", "ann", 1 << 63)
    assert (good["tags"], good["sizes"]) == (["x"], [("s", 1.5)])
    assert "does not fit its schema" in bad["_reason"]
    text = base64.b64encode(descriptor().SerializeToString()).decode()
    path = "/subjects/logins-value/versions/latest?format=serialized"
    with registry({path: {"id": 1, "schema": text}}) as url:
        coding = coding_of("protobuf", "logins", None, url, "")
        first = b"\0\0\0\0\1\0"
        listed = b"\0\0\0\0\1\2\0"
        rows = read(coding, [first + value, listed + value, b"\1"])
    assert [row["user"] for row in rows] == ["ann", "ann", None]
    assert "no header" in rows[2]["_reason"]
    with pytest.raises(DataError, match="no message"):
        coding_of("protobuf", "logins", str(file), None, "logs.Other").columns()
