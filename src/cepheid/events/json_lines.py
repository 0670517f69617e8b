"""Lines of JSON in, a table out; a field that is a number here and a text there is text.

Arrow gives every field the type of its first value and refuses others. Logs that several programs
wrote have such fields, so those lines are written anew, with texts, and read again.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import json

BLOCK_BYTES = 1 << 24
"""Arrow makes chunks of as many bytes; work on each has costs of its own."""

PART_BYTES = 1 << 26
"""Files of more bytes are read in parts of so many."""

LINE_BYTES_MAX = 1 << 29
"""A line that is longer is a mistake, such as a file without ends of lines."""

PACKED = (".gz", ".bz2", ".zst")
"""The ends of names of compressed text files, which Arrow decompresses as it reads."""

_MARK = b"\xef\xbb\xbf"
"""What some programs write before UTF-8."""

_BLANK_MAX = 1 << 12
"""A shorter part may be blank: what follows the last line."""

_CHANGED = "changed from"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_NUMBERS, _AS_THEY_ARE = (int, float), (str, type(None))

_Shape = tuple[tuple[str, ...], tuple[type, ...]]
"""The names of the fields of a line, and the types of their values."""


def read_json_lines(file: Path, texts: pa.Schema) -> pa.Table:
    """Read a file of lines of JSON, which may be compressed.

    Parameters
    ----------
    texts
        The columns that stay text even if Arrow would read times.

    Raises
    ------
    ArrowInvalid
        If a line is no object of JSON, or the fields inside of an object change their type.
    """
    form = json.ParseOptions(explicit_schema=texts or None)
    blocks = json.ReadOptions(block_size=BLOCK_BYTES)
    in_parts = _read_parts(file, blocks, form)
    if in_parts is not None:
        return in_parts
    try:
        return read_typed(file, blocks, form)
    except pa.ArrowInvalid as error:
        if _CHANGED not in str(error):
            raise
        lines = _with_texts(file)
        if lines is None:
            raise
    return read_typed(io.BytesIO(lines), blocks, form)


def read_typed(source: Any, blocks: json.ReadOptions, form: json.ParseOptions) -> pa.Table:
    """Read lines of JSON, and their types first if a list begins with null.

    Of such a list, Arrow forgets the null while it has seen no value that tells the type
    (apache/arrow#51305), and then has fewer values than its lists. It crashes where the first line
    is nothing but null.

    Raises
    ------
    ArrowInvalid
        If a line is no object of JSON.
    """
    if _first_bytes(source).lstrip().startswith(b"null"):
        message = "the first line is null and no object of JSON"
        raise pa.ArrowInvalid(message)
    table = json.read_json(source, blocks, form)
    try:
        for column in table.columns:
            if pa.types.is_nested(column.type):
                column.validate(full=True)
    except pa.ArrowInvalid:
        if isinstance(source, io.BytesIO | pa.NativeFile):
            source.seek(0)
        fields = [field.with_type(typed(field.type)) for field in table.schema]
        known = json.ParseOptions(explicit_schema=pa.schema(fields))
        return json.read_json(source, blocks, known)
    return table


def _first_bytes(source: Any) -> bytes:
    if isinstance(source, Path):
        with pa.input_stream(str(source)) as stream:
            return stream.read(_BLANK_MAX)
    first: bytes = source.read(_BLANK_MAX)
    source.seek(0)
    return first


def typed(kind: Any) -> Any:
    """Let lists of nothing but null be lists of texts."""
    if pa.types.is_list(kind):
        inner = pa.string() if pa.types.is_null(kind.value_type) else typed(kind.value_type)
        return pa.list_(inner)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(typed(field.type)) for field in kind.fields])
    return kind


def _read_parts(file: Path, blocks: json.ReadOptions, form: json.ParseOptions) -> pa.Table | None:
    """Read a large file part by part; None if it is not large, or its parts tell of a mistake.

    Arrow keeps all bytes of a file beside the events that it has made of them. New memory costs
    more than the parsing, so here all parts share the memory of the first. None as well if parts do
    not agree on the type of a field: then it takes the whole file to know what it is.
    """
    if file.stat().st_size <= PART_BYTES:
        return None
    try:
        parts = (pa.BufferReader(pa.py_buffer(part)) for part in line_parts(file, PART_BYTES))
        tables = [read_typed(part, blocks, form).combine_chunks() for part in parts]
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def line_parts(file: Path, part_bytes: int = PART_BYTES) -> Iterator[memoryview]:
    """Yield whole lines, as many as fit a part; the next part takes the place of the last one.

    Raises
    ------
    ArrowInvalid
        If a line is too long.
    """
    if file.suffix not in PACKED:
        part_bytes = min(part_bytes, file.stat().st_size + 1)
    room, kept, marked = _room(part_bytes), 0, True
    with pa.input_stream(str(file)) as source:
        while True:
            count = source.readinto(memoryview(room)[kept:])
            end = kept + count
            if marked and end < len(_MARK) and count:
                kept = end
                continue
            begin = len(_MARK) if marked and room[: len(_MARK)] == _MARK else 0
            cut = room.rfind(b"\n", 0, end) + 1 if count else end
            if cut > _BLANK_MAX or room[begin:cut].strip():
                yield memoryview(room)[begin:cut]
            marked = marked and not cut
            if not count:
                return
            rest = room[cut:end]
            kept = len(rest)
            if kept < len(room):
                room[:kept] = rest
                continue
            if kept >= LINE_BYTES_MAX:
                message = f"a line is longer than {LINE_BYTES_MAX >> 20} MB"
                raise pa.ArrowInvalid(message)
            room = _room(2 * kept)  # A line that is longer than a part.
            room[:kept] = rest


def _room(size: int) -> mmap.mmap:
    """Make room in large pages, if the system has them: to get many small ones takes long."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, size)
    room = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


def _with_texts(file: Path) -> bytes | None:
    """Write fields of several types as texts; None if there are none, or a line is no object.

    Lines of one program have the same fields of the same types, their *shape*, so few shapes tell
    of all lines; only lines of a shape with a field to change are written anew.
    """
    with pa.input_stream(str(file)) as source:
        lines = [line for line in source.read().split(b"\n") if line.strip()]
    shapes: dict[_Shape, int] = {}
    numbers = []
    try:
        for line in lines:
            row = _decode(line)
            if not isinstance(row, dict):
                return None
            shape = (tuple(row), tuple(map(type, row.values())))
            numbers.append(shapes.setdefault(shape, len(shapes)))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    changed = _fields_to_change(shapes)
    if not any(changed):
        return None
    for place, number in enumerate(numbers):
        if changed[number]:
            row = _decode(lines[place])
            row.update((name, _encode(row[name]).decode()) for name in changed[number])
            lines[place] = _encode(row)
    return b"\n".join(lines)


def _fields_to_change(shapes: Iterable[_Shape]) -> list[list[str]]:
    """Find the fields of each shape that are no texts, and of another type in another shape."""
    kinds: dict[str, set[str]] = {}
    for names, types in shapes:
        for name, kind in zip(names, types, strict=True):
            if kind is not type(None):
                kinds.setdefault(name, set()).add("number" if kind in _NUMBERS else kind.__name__)
    mixed = {name for name, found in kinds.items() if len(found) > 1}
    return [
        [
            name
            for name, kind in zip(names, types, strict=True)
            if name in mixed and kind not in _AS_THEY_ARE
        ]
        for names, types in shapes
    ]
