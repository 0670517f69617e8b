"""Read one version of a store: events in the order of time, blocks and index entries.

All reads are counted, so that a plan can be compared with its actual cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from cepheid.store.block_tree import BlockTree
from cepheid.store.blocks import Blocks
from cepheid.store.manifest import Manifest, Segment, StoredFile, outside, path_of
from cepheid.store.mapped import Pages, damaged, map_file
from cepheid.store.merging import Piece, merge_pieces
from cepheid.store.secondary import Hits, SecondaryIndex
from cepheid.store.times import Times, one_array, read_ticks

RUN_GROUPS = 64
"""Row groups that are read together if no other segment overlaps."""


class Effort(msgspec.Struct):
    """The I/O cost: row groups, events, bytes of columns, entries and bytes of indexes."""

    groups: int = 0
    rows: int = 0
    data_bytes: int = 0
    entries: int = 0
    index_bytes: int = 0


class Cover(NamedTuple):
    """Disjoint ranges of time [begin, end), sorted."""

    begins: Times
    ends: Times

    @staticmethod
    def of(interval: Interval) -> Cover:
        """Build a cover of one range; a missing end is unbounded."""
        lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        begin = lowest if interval.begin is None else interval.begin
        end = highest if interval.end is None else interval.end
        return Cover(np.array([begin]), np.array([end]))

    def touches(self, first: Times, last: Times) -> NDArray[np.bool_]:
        """Mark the stretches [first, last] that overlap a range."""
        if not len(self.begins):
            return np.zeros(len(first), np.bool_)
        # The first range that ends after a stretch has begun.
        place = np.searchsorted(self.ends, first, side="right")
        inside = place < len(self.begins)
        return inside & (self.begins[np.minimum(place, len(self.begins) - 1)] <= last)

    def holds(self, times: Times) -> NDArray[np.bool_]:
        """Mark the times that lie in a range."""
        return self.touches(times, times)


class Interval(msgspec.Struct, frozen=True):
    """A range of time [begin, end); None is unbounded."""

    begin: int | None = None
    end: int | None = None


class Snapshot:
    """Reads one version of a store."""

    def __init__(self, manifest: Manifest, folder: Path, cache: dict[str, Any]) -> None:
        self.manifest = manifest
        self.effort = Effort()
        self._folder = folder
        self._cache = cache
        self._lock = Lock()  # Threads share the counters.
        # Variables of one query often ask for the same entries.
        self._found: dict[tuple[str, tuple[tuple[int, int], ...]], Hits] = {}

    def path(self, file: StoredFile, *, data: bool = False) -> Path:
        """Resolve the path of a file; events may lie in an in-place folder.

        Raises
        ------
        DataError
            E547 if a symbolic link leads out of the store.
        """
        if data and self.manifest.folder is not None:
            return self._folder / self.manifest.folder / file.name
        path = self._folder / file.name
        if not path.resolve().is_relative_to(self._folder.resolve()):
            # A link leads out of the store; links among the files of others are theirs.
            raise outside(path_of(self._folder, self.manifest.version), file.name)
        return path

    # -----------------------------------------------------------------------------------
    # Indexes

    def tree(self, segment: Segment) -> BlockTree:
        """Open the tree over the blocks of a segment; it is cached."""
        name = segment.blocks.name
        if name not in self._cache:
            self._cache[name] = BlockTree(self.path(segment.blocks), segment.blocks)
            self.effort.index_bytes += self._cache[name].read_bytes
        found: BlockTree = self._cache[name]
        return found

    def blocks(
        self,
        segment: Segment,
        nodes: NDArray[np.int64] | None = None,
        attributes: Iterable[str] = (),
    ) -> Blocks:
        """Read the blocks of some nodes of a segment (default: all), with some attributes."""
        tree = self.tree(segment)
        before = tree.read_bytes
        try:
            return tree.blocks(nodes, attributes)
        finally:
            self.effort.index_bytes += tree.read_bytes - before

    def secondary(self, segment: Segment, attribute: str) -> SecondaryIndex | None:
        """Open the index of an attribute in a segment; None if there is none."""
        file = segment.indexes.get(attribute)
        if file is None:
            return None
        if file.name not in self._cache:
            self._cache[file.name] = SecondaryIndex(self.path(file), file)
        found: SecondaryIndex = self._cache[file.name]
        return found

    def look_up(self, segment: Segment, attribute: str, ranges: list[tuple[int, int]]) -> Hits:
        """Read the events of some entries of an index."""
        index = self.secondary(segment, attribute)
        assert index is not None, "ranges come from an index"
        key = (segment.indexes[attribute].name, tuple(ranges))
        if key not in self._found:
            count = sum(end - begin for begin, end in ranges)
            self.effort.entries += count
            self.effort.index_bytes += count * index.entry_bytes
            self._found[key] = index.read(ranges)
        return self._found[key]

    # -----------------------------------------------------------------------------------
    # Events

    def scan(
        self,
        wanted: Interval | Cover,
        columns: Sequence[str],
        *,
        segments: Sequence[Segment] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the events of ranges of time, in order, in tables of at most 2^18 events."""
        cover = self.clip_cover(wanted if isinstance(wanted, Cover) else Cover.of(wanted))
        chosen = self.manifest.segments if segments is None else segments
        runs = []
        for place, segment in enumerate(chosen):
            alone = not any(
                other is not segment and other.first <= segment.last and segment.first <= other.last
                for other in chosen
            )
            found = self._runs(segment, cover, RUN_GROUPS if alone else 1)
            runs += [(first, place, groups) for first, groups in found]
        runs.sort(key=lambda run: run[:2])
        opened: dict[int, parquet.ParquetFile] = {}

        def pieces() -> Iterator[tuple[int, Piece]]:
            for first, place, groups in runs:
                table = self.read_groups(chosen[place], groups, columns, opened=opened)
                times = read_ticks(table, self.manifest.time)
                held = cover.holds(times)
                if not held.all():
                    rows = np.flatnonzero(held)
                    table, times = table.take(rows), times[rows]
                if len(times):
                    yield first, Piece(place, table, times)

        yield from merge_pieces(pieces())

    def clip_cover(self, cover: Cover) -> Cover:
        """Clip ranges at the retention floor."""
        floor = self.manifest.floor
        if floor is None:
            return cover
        left = cover.ends > floor
        return Cover(np.maximum(cover.begins[left], floor), cover.ends[left])

    def clip(self, interval: Interval) -> tuple[int | None, int | None]:
        """Clip a range at the retention floor."""
        floor = self.manifest.floor
        begin = interval.begin
        if floor is not None:
            begin = floor if begin is None else max(begin, floor)
        return begin, interval.end

    def _runs(self, segment: Segment, cover: Cover, length: int) -> Iterator[tuple[int, list[int]]]:
        """Read the row groups of a segment that overlap the ranges, each with its first time."""
        groups, first, last = self.groups_in(segment, cover)
        del last
        for at in range(0, len(groups), length):
            yield int(first[at]), [int(g) for g in groups[at : at + length]]

    def groups_in(self, segment: Segment, cover: Cover) -> tuple[Times, Times, Times]:
        """Find the row groups of a segment that may have events in ranges, and their times."""
        none = np.zeros(0, np.int64)
        if not cover.touches(np.array([segment.first]), np.array([segment.last]))[0]:
            return none, none, none
        upper = self.tree(segment).nodes
        nodes = np.flatnonzero(cover.touches(upper.first, upper.last))
        groups, first, last = group_times(self.blocks(segment, nodes))
        wanted = cover.touches(first, last)
        return groups[wanted], first[wanted], last[wanted]

    def read_groups(
        self,
        segment: Segment,
        groups: list[int],
        columns: Sequence[str],
        *,
        opened: dict[int, parquet.ParquetFile] | None = None,
    ) -> pa.Table:
        """Read row groups of a segment; columns that it lacks are NULL.

        Raises
        ------
        DataError
            E542 if the file is damaged.
        """
        key = id(segment)
        opened = {} if opened is None else opened
        if key not in opened:
            opened[key] = self._open(segment)
        file = opened[key]
        wanted = set(file.schema_arrow.names).intersection(columns)
        self._check(file, self._pages(segment), groups, wanted)
        try:
            table = file.read_row_groups(
                groups, [name for name in columns if name in wanted], use_threads=False
            )
        except (OSError, pa.ArrowException) as error:
            path = self.path(segment.data, data=True)
            raise damaged(path, str(error).splitlines()[0]) from error
        return complete(table, self.manifest.schema, columns)

    def columns_in(self, segment: Segment) -> list[str]:
        """Read the column names of a segment; raise E542 if its file is damaged."""
        return list(self._open(segment).schema_arrow.names)

    def _pages(self, segment: Segment) -> Pages:
        """Map the bytes of a segment's events; each page is verified once."""
        name = f"events of {segment.blocks.name}"
        if name not in self._cache:
            path = self.path(segment.data, data=True)
            data = map_file(path, segment.data)
            self._cache[name] = Pages(path, data, self.tree(segment).events)
        found: Pages = self._cache[name]
        return found

    def _open(self, segment: Segment) -> parquet.ParquetFile:
        """Open the Parquet file of a segment; its last bytes hold the offset of the footer."""
        pages = self._pages(segment)
        size = len(pages.data)
        pages.check(max(size - 8, 0), size)
        length = int.from_bytes(pages.data[-8:-4], "little")
        pages.check(max(size - 8 - length, 0), size)
        try:
            return parquet.ParquetFile(pa.BufferReader(pa.py_buffer(pages.data)))
        except (OSError, pa.ArrowException) as error:
            path = self.path(segment.data, data=True)
            raise damaged(path, str(error).splitlines()[0]) from error

    def _check(
        self, file: parquet.ParquetFile, pages: Pages, groups: list[int], columns: set[str]
    ) -> None:
        """Verify the checksums of the bytes that row groups are read from, and count them."""
        if not groups:
            return
        parts = _parts_of(file.metadata.row_group(groups[0]), columns)
        with self._lock:
            self.effort.groups += len(groups)
            for number in groups:
                group = file.metadata.row_group(number)
                self.effort.rows += group.num_rows
                for part in parts:
                    begin, end = _place_of(group.column(part))
                    pages.check(begin, end)
                    self.effort.data_bytes += end - begin


def _place_of(column: parquet.ColumnChunkMetaData) -> tuple[int, int]:
    """Compute the byte range of a column chunk in a file."""
    begin = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        begin = min(begin, column.dictionary_page_offset)
    return begin, begin + column.total_compressed_size


def _parts_of(group: parquet.RowGroupMetaData, columns: set[str]) -> list[int]:
    """Find the leaf numbers of some columns; a structure has several leaves."""
    paths = [group.column(number).path_in_schema for number in range(group.num_columns)]
    inside = tuple(f"{name}." for name in columns)
    return [n for n, path in enumerate(paths) if path in columns or path.startswith(inside)]


def group_times(
    blocks: Blocks,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """List the row groups of a segment, each with its first and last time."""
    groups, begins = np.unique(blocks.group, return_index=True)
    ends = np.append(begins[1:], len(blocks.group))[: len(begins)] - 1
    return groups, blocks.first[begins], blocks.last[ends]


def complete(table: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Add the missing ones of some columns to a table, filled with NULL."""
    arrays: list[Any] = []
    fields = []
    for name in columns:
        field = schema.field(name)
        fields.append(field)
        if name not in table.column_names:
            arrays.append(pa.nulls(len(table), field.type))
        else:
            column: Any = table.column(name)
            same = column.type == field.type
            arrays.append(column if same else one_array(column).cast(field.type))
    return pa.table(arrays, schema=pa.schema(fields))
