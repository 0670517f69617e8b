"""Run a query over files: Parquet, Arrow, CSV and JSON lines, read batch by batch.

Several files are read in the order of their names, as event logs are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.events.ahead import read_ahead
from cepheid.events.files import (
    BATCH_ROWS,
    content_of,
    count_events,
    find_files,
    names_read,
    read_all,
    schema_of_file,
)
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.ordering import SORT_ROWS_MAX, sort_events, with_ties_ordered
from cepheid.kernels.columns import scan_times
from cepheid.kinds.trend.local import list_batches
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import (
    CompiledQueryLike,
    check_lists,
    reader_of,
    run_table,
)
from cepheid.runtimes.notices import watched, watched_tables
from cepheid.runtimes.row_groups import group_choice
from cepheid.runtimes.sifted import Read, UnorderedError, sifted

PIECE_ROWS = 1 << 20
"""Events that are read from a Parquet file at a time, at most."""

Progress = Callable[[int], None]
"""Called repeatedly with the number of events read, or with the place of the file that is."""


def _ignore(_number: int) -> None:
    return


def run_path(compiled: CompiledQueryLike, pattern: str) -> pa.Table:
    """Run a query over the files that a path, a folder or a pattern names."""
    return run_files(compiled, find_files(pattern))


def run_files(
    compiled: CompiledQueryLike,
    files: list[Path],
    progress: Progress = _ignore,
    opened: Progress = _ignore,
) -> pa.Table:
    """Run a query over files; unsorted files are sorted if there are few events.

    Raises
    ------
    DataError
        E501 if a file cannot be read, E509 if the events are unordered and too many to sort.
    """
    schema = schema_of_file(files[0], compiled.times)
    plan = compiled.with_schema(schema).plan
    # Dictionaries of one file and texts of another are no column.
    parquet = all(content_of(file.name) == "parquet" for file in files)
    encoded = kind_of(plan).encoded(plan) if parquet else ()
    groups = group_choice(plan) if parquet else None
    keeps = kind_of(plan).sifts(plan)

    def read(names: Sequence[str] | None, rows: int, keeps: Any = None) -> Iterator[pa.Table]:
        tables = read_all(files, names, compiled.times, opened, encoded, rows, groups)
        return _counted(read_ahead(sifted(tables, plan.time, keeps)), progress)

    def run() -> pa.Table:
        try:
            return _run_plan(plan, files, schema, partial(read, keeps=keeps))
        except UnorderedError:
            return _run_plan(plan, files, schema, read)

    return watched(plan, run)


def _run_plan(
    plan: Plan,
    files: list[Path],
    schema: pa.Schema,
    read: Callable[[Sequence[str] | None, int], Iterator[pa.Table]],
) -> pa.Table:
    """Run a plan over files, as a stream if they are in order."""
    job, names = local_job(plan), names_read(plan.columns, schema)
    # Where a step has many events, they are read in few pieces, which nobody has to put together.
    rows = min(max(job.batch_rows, BATCH_ROWS), PIECE_ROWS)
    batches = read(names, rows)
    if not job.in_order:
        return job.answer(batches, schema)
    first = list(_first_rows(batches, job.batch_rows))
    if sum(map(len, first)) < job.batch_rows:
        # All events are in memory, and a table can be read twice.
        return _run_whole(plan, first)
    try:
        return job.answer(with_ties_ordered(chain(first, batches), plan), schema)
    except DataError as error:
        unordered = error.diagnostics[0].code == "E509"
        if not unordered or count_events(files) > SORT_ROWS_MAX:
            raise
    return _run_whole(plan, read(names, rows))


def _first_rows(batches: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield batches until they have the given number of rows."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        rows -= len(batch)
        yield batch


def _run_whole(plan: Plan, batches: Iterable[pa.Table]) -> pa.Table:
    """Run a plan over batches as one table, which is sorted if necessary."""
    table = pa.concat_tables(batches, promote_options="permissive")
    return run_table(plan, table)


def list_files(
    compiled: CompiledQueryLike,
    files: list[Path],
    progress: Progress = _ignore,
    opened: Progress = _ignore,
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """List the matches in files: return their schema, and a generator of tables.

    Raises
    ------
    DataError
        E501 if a file cannot be read, E509 if the events are unordered and too many to sort.
    """
    schema = schema_of_file(files[0], compiled.times)
    plan = check_lists(compiled.with_schema(schema).plan)
    job = lower(plan)
    names = names_read(plan.columns, schema)
    tables = read_all(files, names, compiled.times, opened, groups=group_choice(plan))
    read = _counted(read_ahead(sifted(tables, plan.time, None)), progress)
    batches = with_ties_ordered(read, plan)
    if not _in_order(files, compiled.times):
        if count_events(files) > SORT_ROWS_MAX:
            message = f"the events are not in the order of `{plan.time}`"
            helps = (f"sort them first: more than {SORT_ROWS_MAX:,} events are not sorted",)
            raise DataError([Diagnostic("E509", message, helps=helps)])
        table = pa.concat_tables(list(batches), promote_options="permissive")
        batches = iter([sort_events(table, plan)])
    return empty_matches(job, schema).schema, watched_tables(plan, list_batches(job, batches))


def list_path(compiled: CompiledQueryLike, pattern: str) -> pa.RecordBatchReader:
    """Open a reader that lists the matches in files while it is read.

    Raises
    ------
    DataError
        As for ``list_files``.
    ValueError
        If the query returns aggregates.
    """
    check_lists(compiled.plan)
    schema, tables = list_files(compiled, find_files(pattern))
    return reader_of(schema, tables)


def _in_order(files: list[Path], times: TextTimes) -> bool:
    """Check that the events of files are sorted by time; emitted matches cannot be retracted."""
    last: int | None = None
    for batch in read_ahead(read_all(files, None, times)):
        found = read_times(Columns(batch), times.column)
        if len(found):
            if scan_times(found)[0] >= 0 or (last is not None and found[0] < last):
                return False
            last = int(found[-1])
    return True


def _counted(batches: Iterator[Read], progress: Progress) -> Iterator[pa.Table]:
    total = 0
    for batch in batches:
        total += batch.rows
        progress(total)
        yield batch.table
