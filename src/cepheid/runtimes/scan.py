"""Cut Parquet files into slices of time, using only their footers.

The statistics of a row group hold its first and last time. Row groups that overlap in time form a
*unit*, which a task sorts as a whole; units do not overlap. A slice is a range of time and the
units that a task reads for it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs, parquet

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.events.files import find_files
from cepheid.events.nanoseconds import is_nanoseconds

UNIT_ROWS_MAX = 8_000_000
"""The maximum number of overlapping events that one task sorts in memory."""

SLICE_ROWS_MIN = 500_000
"""Fewer events are not worth a task."""

SLICE_REACHES = 4
"""The minimum ratio of a slice to the margin that its task also reads."""

FOOTER_THREADS = 8


class RowGroup(NamedTuple):
    """A row group of a file, and its first and last time."""

    path: str
    number: int
    rows: int
    first: int
    last: int


class Unit(NamedTuple):
    """Row groups that overlap in time, in the order of files; usually one."""

    groups: tuple[RowGroup, ...]
    first: int
    last: int
    rows: int


class Slice(NamedTuple):
    """A range of time [begin, end) and the units to read; None is unbounded."""

    begin: int | None
    end: int | None
    units: tuple[Unit, ...]


class Footers(NamedTuple):
    """The content of file footers; ``groups`` is None if one lacks time statistics."""

    schema: pa.Schema
    groups: list[RowGroup] | None


def find_paths(pattern: str) -> list[str]:
    """Find the files that a path, a folder or a pattern names, also in other file systems.

    Raises
    ------
    DataError
        E501 if there are none.
    """
    if "://" not in pattern:
        # Tasks run in folders of their own.
        return [str(path.absolute()) for path in find_files(pattern)]
    scheme, _, _ = pattern.partition("://")
    folder = pattern.split("*")[0].rpartition("/")[0] if "*" in pattern else pattern
    try:
        system, root = fs.FileSystem.from_uri(folder)
        known = system.get_file_info(root)
        found = [known]
        if known.type == fs.FileType.Directory:
            found = system.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, pa.ArrowException) as error:
        message = f"could not read `{pattern}`: {str(error).splitlines()[0]}"
        raise DataError([Diagnostic("E501", message)]) from error
    prefix = folder.removesuffix(root) if folder.endswith(root) else f"{scheme}://"
    paths = sorted(info.path for info in found if info.type == fs.FileType.File)
    visible = [p for p in paths if p.rpartition("/")[2][0] not in "._"]
    uris = [prefix + path for path in visible]
    if "*" in pattern:
        uris = [uri for uri in uris if fnmatch.fnmatch(uri, pattern)]
    if not uris:
        raise DataError([Diagnostic("E501", f"no file matches `{pattern}`")])
    return uris


def open_file(path: str, **options: Any) -> parquet.ParquetFile:
    """Open a Parquet file in any file system that Arrow supports."""
    if "://" not in path:
        return parquet.ParquetFile(Path(path), **options)
    system, inner = fs.FileSystem.from_uri(path)
    return parquet.ParquetFile(inner, filesystem=system, **options)


def read_footers(paths: list[str], time: str) -> Footers:
    """Read the footers of Parquet files, several concurrently.

    Raises
    ------
    DataError
        E501 if a file cannot be read, or has other columns than the first.
    """
    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        found = list(pool.map(lambda path: _read_footer(path, time), paths))
    schema = found[0].schema
    for path, footer in zip(paths, found, strict=True):
        if not footer.schema.equals(schema):
            message = f"`{path}` has other columns than `{paths[0]}`"
            raise DataError([Diagnostic("E501", message)])
    if any(footer.groups is None for footer in found):
        return Footers(schema, None)
    return Footers(schema, [group for footer in found for group in footer.groups or ()])


def _read_footer(path: str, time: str) -> Footers:
    try:
        file = open_file(path)
        schema = file.schema_arrow.remove_metadata()
        return Footers(schema, _groups_of(path, file, time))
    except (OSError, pa.ArrowException) as error:
        message = f"could not read `{path}`: {str(error).splitlines()[0]}"
        raise DataError([Diagnostic("E501", message)]) from error


def _groups_of(path: str, file: parquet.ParquetFile, time: str) -> list[RowGroup] | None:
    """List the non-empty row groups with their times, or return None if these are unknown."""
    leaf = next((n for n in range(len(file.schema)) if file.schema.column(n).path == time), None)
    if leaf is None:
        return None
    field = pa.field(time, _leaf_type(file.schema_arrow, time))
    groups = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if not group.num_rows:
            continue
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        column = _extremes(statistics, field.type)
        try:
            times = read_times(Columns(pa.table({time: column})), time)
        except CepheidError:
            return None
        groups.append(RowGroup(path, number, group.num_rows, int(times[0]), int(times[1])))
    return groups


def _extremes(statistics: Any, kind: pa.DataType) -> pa.Array[Any]:
    if is_nanoseconds(kind):
        # As objects of Python they would be microseconds.
        raw: pa.Array[Any] = pa.array([statistics.min_raw, statistics.max_raw], pa.int64())
        return raw.cast(kind)
    return pa.array([statistics.min, statistics.max], kind)


def _leaf_type(schema: pa.Schema, name: str) -> Any:
    if name in schema.names:
        return schema.field(name).type
    outer, *inner = name.split(".")
    kind = schema.field(outer).type
    for part in inner:
        kind = kind.field(part).type
    return kind


def flat_schema(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Select columns by name; fields of structures become columns of their own."""
    return pa.schema([(name, _leaf_type(schema, name)) for name in names])


def units_of(groups: list[RowGroup], *, apart: bool) -> list[Unit]:
    """Group row groups that overlap in time into units, sorted by time.

    With ``apart``, units share no time at all, because tie-breakers order events of equal time.
    """
    units: list[Unit] = []
    places = {id(group): n for n, group in enumerate(groups)}
    for group in sorted(groups, key=lambda g: (g.first, places[id(g)])):
        before = units[-1] if units else None
        tied = before is not None and group.first == before.last
        # Equal times at the seam are in order if the files are.
        in_order = before is not None and places[id(before.groups[-1])] < places[id(group)]
        joins = before is not None and (
            group.first < before.last or (tied and (apart or not in_order))
        )
        if before is not None and joins:
            inside = sorted([*before.groups, group], key=lambda g: places[id(g)])
            last = max(before.last, group.last)
            units[-1] = Unit(tuple(inside), before.first, last, before.rows + group.rows)
        else:
            units.append(Unit((group,), group.first, group.last, group.rows))
    return units


def cut(
    units: list[Unit], count: int, *, before: int, after: int, event_before: bool = False
) -> list[Slice]:
    """Cut units into at most ``count`` slices with about the same number of events.

    Parameters
    ----------
    before, after
        How far a task reads beyond its range to either side, in microseconds.
    event_before
        Whether tasks also read the last event before their range.
    """
    rows = np.array([unit.rows for unit in units])
    span = units[-1].last - units[0].first + 1
    reach = before + after
    most = max(1, span // (SLICE_REACHES * reach)) if reach else count
    count = max(1, min(count, len(units), int(most), int(rows.sum()) // SLICE_ROWS_MIN + 1))
    share = np.cumsum(rows) - rows
    wanted = rows.sum() * np.arange(1, count) / count
    begins = np.unique(np.searchsorted(share, wanted, side="left"))
    edges = [units[b].first for b in begins if 0 < b < len(units)]
    edges = sorted(set(edges))
    slices = []
    for begin, end in zip([None, *edges], [*edges, None], strict=True):
        first, last = 0, len(units)
        if begin is not None:
            first = next(n for n, unit in enumerate(units) if unit.last >= begin - before)
            if event_before and first and units[first].first >= begin - before:
                first -= 1
        if end is not None:
            last = next(n for n, u in enumerate([*units, None]) if not u or u.first >= end + after)
        slices.append(Slice(begin, end, tuple(units[first:last])))
    return slices
