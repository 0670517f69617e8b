"""Build the manifest of a store that reads existing Parquet files in place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cepheid.errors import DataError, Diagnostic
from cepheid.store.arriving import merged_schema, plain
from cepheid.store.block_tree import pack_blocks
from cepheid.store.blocks import STATISTICS, Blocks, Summary, index_table, is_summarised
from cepheid.store.manifest import Manifest, Segment, StoredFile, pack_schema
from cepheid.store.mapped import page_sums
from cepheid.store.secondary import parts_of
from cepheid.store.segments import INDEX_FOLDER, Place, write_indexes
from cepheid.store.times import Times, read_ticks


def read_directory(
    place: Place, folder: Path, time: str, before: Manifest | None
) -> Manifest | None:
    """Build the manifest of a folder of files, or return None if nothing has changed."""
    files = find_parquet(folder)
    known = {} if before is None else {segment.data.name: segment for segment in before.segments}
    schema: pa.Schema | None = None
    segments = []
    for path in files:
        name = path.relative_to(folder).as_posix()
        schema = _schema(path, schema)
        same = known.get(name)
        unchanged = same is not None and same.data == _file_of(path, name)
        segments += [same] if same and unchanged else _index_file(place, path, name, time)
    assert schema is not None, "there is a file"
    beside = Path(os.path.relpath(folder.resolve(), place.folder.resolve())).as_posix()
    same_place = before is not None and before.folder == beside
    if before is not None and same_place and tuple(segments) == before.segments:
        return None
    first = Manifest(0, time, "") if before is None else before
    return msgspec.structs.replace(
        first,
        columns=pack_schema(schema),
        segments=tuple(segments),
        folder=beside,
    )


def find_parquet(folder: Path) -> list[Path]:
    """List the Parquet files of a folder and its subfolders, sorted by name.

    Raises
    ------
    DataError
        E501 if there are none.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in (".parquet", ".pq")
        and not any(part[0] in "._" for part in path.relative_to(folder).parts)
    ]
    if not found:
        message = f"there are no Parquet files in `{folder}`"
        raise DataError([Diagnostic("E501", message)])
    return found


def _schema(path: Path, known: pa.Schema | None) -> pa.Schema:
    try:
        found = parquet.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    return merged_schema(found, known)


def _file_of(path: Path, name: str) -> StoredFile:
    with pa.memory_map(str(path)) as source:
        return StoredFile.of(name, source.read_buffer())


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError([Diagnostic("E501", f"could not read `{path}`: {reason}")])


class _Part(NamedTuple):
    """The blocks of a row group."""

    blocks: Blocks
    times: Times


def _index_file(place: Place, path: Path, name: str, time: str) -> list[Segment]:
    try:
        file = parquet.ParquetFile(path, memory_map=True)
        fields = file.schema_arrow
        wanted = [f.name for f in fields if is_summarised(f.type) or f.name == time]
        parts: list[_Part] = []
        for number in range(file.metadata.num_row_groups):
            table = plain(file.read_row_group(number, columns=wanted))
            parts += _index_group(path, table, time, number, parts)
        if not parts:
            return []
        times = np.concatenate([part.times for part in parts])
        stem = place.unique()
        indexes: dict[str, StoredFile] = {}
        for attribute in place.indexed:
            if set(parts_of(attribute)) <= set(fields.names):
                column = plain(file.read(columns=parts_of(attribute)))
                indexes |= write_indexes(place, stem, column, times, [attribute])
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    with pa.memory_map(str(path)) as source:
        content = source.read_buffer()
    data, pages = StoredFile.of(name, content), page_sums(content)
    packed = pack_blocks(_joined([part.blocks for part in parts]), pages)
    beside = f"{INDEX_FOLDER}/{stem}.blocks"
    place.files.write(place.folder / beside, packed)
    ends = int(times[0]), int(times[-1])
    return [Segment(data, len(times), *ends, StoredFile.of(beside, packed), indexes)]


def _index_group(
    path: Path, table: pa.Table, time: str, number: int, before: list[_Part]
) -> list[_Part]:
    times = read_ticks(table, time)
    if not len(times):
        return []
    late = bool(before) and times[0] < before[-1].times[-1]
    if late or (times[1:] < times[:-1]).any():
        message = f"the events in `{path}` are not in the order of `{time}`"
        helps = ("append them to a store, which puts them in order: `store.append(table)`",)
        raise DataError([Diagnostic("E509", message, helps=helps)])
    blocks = index_table(table, times, np.array([0, len(times)]))
    begins = sum(len(part.times) for part in before) + blocks.begins
    group = np.full(len(begins), number)
    return [_Part(blocks._replace(begins=begins, group=group), times)]


def _joined(parts: list[Blocks]) -> Blocks:
    """Concatenate the blocks of several row groups; if one lacks a sum, all lack it."""
    columns: Any = [np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[:5]]
    attributes = {}
    for name in parts[0].attributes:
        own = [part.attributes[name] for part in parts]
        arrays = {
            statistic: None
            if any(summary[n] is None for summary in own)
            else np.concatenate([np.asarray(summary[n]) for summary in own])
            for n, statistic in enumerate(STATISTICS)
        }
        attributes[name] = Summary(**arrays)  # type: ignore[arg-type]  # only a sum can be None
    begins, rows, group, first, last = columns
    return Blocks(begins, rows, group, first, last, attributes)
