"""Files in, a result table out: Parquet, Arrow, CSV and JSON lines, read batch by batch.

Several files are read in the order of their names, as event logs are written.
"""

from __future__ import annotations

import glob
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, json, parquet

from cepheid.engine.events import Columns, read_times
from cepheid.engine.job import lower
from cepheid.engine.listing import empty_matches
from cepheid.errors import DataError, Diagnostic
from cepheid.events.arriving import plain_table
from cepheid.events.nanoseconds import in_units_of
from cepheid.jobs.local_jobs import BATCH_ROWS, local_job
from cepheid.jobs.ordering import SORT_ROWS_MAX, sort_events, with_ties_ordered
from cepheid.kernels.columns import scan_times
from cepheid.planner.plan import Plan
from cepheid.runtime.local import (
    CompiledQueryLike,
    check_lists,
    reader_of,
    run_table,
)
from cepheid.runtime.local_trends import list_batches

Progress = Callable[[int], None]
"""Told how many events were read, again and again."""


def find_files(pattern: str) -> list[Path]:
    """Return the files that a path, a folder or a pattern with ``*`` names, in order.

    Raises
    ------
    DataError
        E501 if there are none.
    """
    path = Path(pattern)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
    else:
        found = [path] if path.is_file() else sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    if not found:
        message = f"no file is called `{pattern}`"
        helps = ("name a file, a folder, or a pattern: 'events/*.parquet'",)
        raise DataError([Diagnostic("E501", message, helps=helps)])
    return found


def run_path(compiled: CompiledQueryLike, pattern: str) -> pa.Table:
    """Run a query over the files that a path, a folder or a pattern names."""
    return run_files(compiled, find_files(pattern), lambda _: None)


def run_files(compiled: CompiledQueryLike, files: list[Path], progress: Progress) -> pa.Table:
    """Run a query over files; files that are not in the order of time are sorted, if they are few.

    Raises
    ------
    DataError
        E501 if a file cannot be read, E509 if the events are unordered and too many to sort.
    """
    schema = next(read_all(files[:1])).schema
    plan = compiled.with_schema(schema).plan
    job, names = local_job(plan), names_read(plan, schema)
    batches: Iterable[pa.Table] = _counted(read_all(files, names), progress)
    if not job.in_order:
        return job.answer(batches, schema)
    try:
        return job.answer(with_ties_ordered(batches, plan), schema)
    except DataError as error:
        unordered = error.diagnostics[0].code == "E509"
        if not unordered or count_events(files) > SORT_ROWS_MAX:
            raise
    table = pa.concat_tables(list(read_all(files, names)), promote_options="permissive")
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        result = run_table(plan, table)
    for notice in notices:
        warnings.warn(str(notice.message), stacklevel=2)
    return result


def list_files(
    compiled: CompiledQueryLike, files: list[Path], progress: Progress
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the schema of a query's matches over files, and the matches as they are found.

    Raises
    ------
    DataError
        E501 if a file cannot be read, E509 if the events are unordered and too many to sort.
    """
    schema = next(read_all(files[:1])).schema
    plan = check_lists(compiled.with_schema(schema).plan)
    job = lower(plan)
    names = names_read(plan, schema)
    batches = with_ties_ordered(_counted(read_all(files, names), progress), plan)
    if not _in_order(files, plan.time):
        if count_events(files) > SORT_ROWS_MAX:
            message = f"the events are not in the order of `{plan.time}`"
            helps = (f"sort them first: more than {SORT_ROWS_MAX:,} events are not sorted",)
            raise DataError([Diagnostic("E509", message, helps=helps)])
        table = pa.concat_tables(list(batches), promote_options="permissive")
        batches = iter([sort_events(table, plan)])
    return empty_matches(job, schema).schema, list_batches(job, batches)


def names_read(plan: Plan, schema: pa.Schema) -> list[str] | None:
    """Return the columns of files that a plan reads; parts of a structure come with the whole."""
    if plan.columns is None:
        return None
    # A query that reads no column counts events, of which some column is needed.
    return present(schema.names, plan.columns) or schema.names[:1]


def present(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return those of some names that are read; parts of a structure come with the whole."""
    wanted = {name if name in names else name.partition(".")[0] for name in columns}
    return [name for name in names if name in wanted]


def list_path(compiled: CompiledQueryLike, pattern: str) -> pa.RecordBatchReader:
    """Return a reader that lists the matches in files as it is read.

    Raises
    ------
    DataError
        As for ``list_files``.
    ValueError
        If the query returns aggregates.
    """
    check_lists(compiled.plan)
    schema, tables = list_files(compiled, find_files(pattern), lambda _: None)
    return reader_of(schema, tables)


def _in_order(files: list[Path], time: str) -> bool:
    """Return whether the events of files are in the order of time; matches cannot be taken back."""
    last: int | None = None
    for batch in read_all(files):
        times = read_times(Columns(batch), time)
        if len(times):
            if scan_times(times)[0] >= 0 or (last is not None and times[0] < last):
                return False
            last = int(times[-1])
    return True


def count_events(files: list[Path]) -> int:
    """Return the number of events in files."""
    return sum(len(batch) for batch in read_all(files))


def _counted(batches: Iterator[pa.Table], progress: Progress) -> Iterator[pa.Table]:
    total = 0
    for batch in batches:
        total += len(batch)
        progress(total)
        yield batch


def read_all(files: list[Path], columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the events of files, batch by batch; E501 if one cannot be read.

    Of Parquet files only some columns are read, if they are named; others may come along.
    """
    first: pa.Schema | None = None
    for file in files:
        try:
            for table in _read_file(file, columns):
                # The unit of times is that of the first file.
                first = table.schema if first is None else first
                yield in_units_of(table, first)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            message = f"could not read `{file}`: {reason}"
            raise DataError([Diagnostic("E501", message)]) from error


def _read_file(file: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the events of one file; a file without events yields one empty table."""
    match file.suffix.lower():
        case ".parquet" | ".pq":
            source = parquet.ParquetFile(file)
            names = source.schema_arrow.names
            kept = None if columns is None else [name for name in names if name in columns]
            batches: Any = source.iter_batches(BATCH_ROWS, columns=kept)
            empty = source.schema_arrow.empty_table()
        case ".csv":
            reader = csv.open_csv(file, read_options=csv.ReadOptions(block_size=1 << 24))
            batches, empty = reader, reader.schema.empty_table()
        case ".jsonl" | ".ndjson" | ".json":
            table = json.read_json(file)
            batches, empty = table.to_batches(BATCH_ROWS), table.schema.empty_table()
        case ".arrow" | ".feather" | ".ipc":
            opened = pa.ipc.open_file(pa.memory_map(str(file)))
            batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            empty = opened.schema.empty_table()
        case ending:
            message = f"could not read `{file}`: `{ending}` names no known kind of file"
            helps = ("use files that end in .parquet, .csv, .jsonl or .arrow",)
            raise DataError([Diagnostic("E501", message, helps=helps)])
    some = False
    for batch in batches:
        some = True
        yield plain_table(pa.Table.from_batches([batch]))
    if not some:
        yield plain_table(empty)
