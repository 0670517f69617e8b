"""Write the files of a segment: sorted events as Parquet, their blocks and their indexes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from cepheid.store.block_tree import pack_blocks
from cepheid.store.blocks import group_offsets, index_table
from cepheid.store.file_system import Writes
from cepheid.store.manifest import Segment, StoredFile
from cepheid.store.mapped import page_sums
from cepheid.store.secondary import index_column, index_name, indexed_values, parts_of
from cepheid.store.times import Times

GROUP_ROWS = 4_096
"""Events of a row group, which is the least that is read. Smaller ones cost more to write and have
longer footers, larger ones cost more to look into."""

SEGMENT_ROWS = 1 << 22
"""Events of a segment, at most."""

DATA_FOLDER = "segments"
INDEX_FOLDER = "index"


class Place(NamedTuple):
    """The target of a writer: file system, folder, indexed attributes, and the writer's key."""

    files: Writes
    folder: Path
    indexed: tuple[str, ...]
    writer: str

    def unique(self) -> str:
        """Make a name that no other file has, and that tells whose file it is."""
        return f"{self.writer}-{uuid.uuid4().hex[:12]}"


def write_segments(
    place: Place, table: pa.Table, times: Times, *, side: bool = False
) -> list[Segment]:
    """Write segments of events sorted by time; no manifest refers to the files yet."""
    return [
        _write_segment(place, table.slice(at, SEGMENT_ROWS), times[at : at + SEGMENT_ROWS], side)
        for at in range(0, len(times), SEGMENT_ROWS)
    ]


def _write_segment(place: Place, table: pa.Table, times: Times, side: bool) -> Segment:  # noqa: FBT001  # one private caller
    stem = f"{int(times[0]):+021d}-{place.unique()}"
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(_parquet, table)
        blocks = index_table(table, times, group_offsets(len(times), GROUP_ROWS))
        packed = written.result()
        data = _write(place, f"{DATA_FOLDER}/{stem}.parquet", packed)
    summaries = pack_blocks(blocks, page_sums(packed))
    beside = _write(place, f"{INDEX_FOLDER}/{stem}.blocks", summaries)
    indexes = write_indexes(place, stem, table, times, place.indexed)
    ends = int(times[0]), int(times[-1])
    return Segment(data, len(times), *ends, beside, indexes, side)


def write_indexes(
    place: Place, stem: str, table: pa.Table, times: Times, names: Iterable[str]
) -> dict[str, StoredFile]:
    """Write the secondary indexes of a segment, except for columns that it lacks."""
    return {
        name: _write(
            place,
            f"{INDEX_FOLDER}/{stem}.{index_name(name)}",
            index_column(indexed_values(table, name), times),
        )
        for name in names
        if set(parts_of(name)) <= set(table.column_names)
    }


def _write(place: Place, name: str, data: pa.Buffer) -> StoredFile:
    place.files.write(place.folder / name, data)
    return StoredFile.of(name, data)


def _parquet(table: pa.Table) -> pa.Buffer:
    """Encode a table as Parquet, with dictionaries for text (which repeats) but not for numbers."""
    texts: Any = [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression="lz4",
        use_dictionary=texts,
    )
    return sink.getvalue()
