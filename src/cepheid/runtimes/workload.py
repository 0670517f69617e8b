"""Run a workload over events in one process: one pass, a result table for every query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cepheid.arrays.noticing import Noticed, noticing
from cepheid.errors import DataError
from cepheid.events.ahead import read_ahead
from cepheid.events.arriving import as_table, like, plain_reader
from cepheid.events.files import count_events, find_files, read_all, schema_of_file
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import SORT_ROWS_MAX, put_together, sort_events, with_ties_ordered
from cepheid.jobs.sources import source_of
from cepheid.kinds.workload.answer import answer_workload, batch_rows
from cepheid.kinds.workload.beside import Tables
from cepheid.kinds.workload.combine_results import unite
from cepheid.kinds.workload.sharing import SharedPlan
from cepheid.runtimes.notices import names_of, oddities, warn_of


class WorkloadLike(Protocol):
    """The interface of a workload that a runtime needs: its plan for a schema."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the queries, in order."""

    @property
    def merge(self) -> bool:
        """Check whether queries are merged where possible."""

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""

    def shared(self, schema: object) -> SharedPlan:
        """Plan the workload for a schema."""


def run_workload_table(shared: SharedPlan, table: pa.Table) -> Tables:
    """Run a workload over a table; an unsorted table is sorted first."""
    ordered = sort_events(table, shared.first)
    return run_workload_batches(shared, slices_of(ordered, batch_rows(shared)), table.schema)


def run_workload_reader(shared: SharedPlan, reader: pa.RecordBatchReader) -> Tables:
    """Run a workload over the batches of a reader."""
    tables = _ordered(shared, put_together(reader, batch_rows(shared)))
    return run_workload_batches(shared, tables, reader.schema)


def _ordered(shared: SharedPlan, batches: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """Sort batches by the tie-breakers, which all queries share."""
    return with_ties_ordered(batches, shared.first)


def run_workload_batches(
    shared: SharedPlan, batches: Iterable[pa.Table], schema: pa.Schema
) -> Tables:
    """Run a workload over batches sorted by time, and warn of what the events lack."""
    with noticing(Noticed(names_of(shared.plans))) as noticed:
        tables = answer_workload(shared, batches, schema)
    warn_of(oddities(shared.plans, noticed))
    return tables


def run_workload(
    workload: WorkloadLike, events: Any, *, spark: object, separate: bool, device: str = "cpu"
) -> Any:
    """Run a workload over events in any supported container; results have the same kind.

    Raises
    ------
    TypeError
        If the container of the events is not supported.
    """
    assert spark is None, "Spark has a runtime of its own"
    if isinstance(events, str) and device == "gpu":
        source = source_of(Path(events), workload.times)
        tables = _run_on(workload, source.whole(source.schema.names), device)
    elif isinstance(events, str):
        tables = run_workload_files(workload, find_files(events))
    elif device != "cpu":
        tables = _run_on(workload, events, device)
    elif isinstance(events, pa.RecordBatchReader):
        reader = timed_reader(plain_reader(events), workload.times)
        tables = run_workload_reader(workload.shared(reader.schema), reader)
    else:
        table = timed_table(as_table(events), workload.times)
        tables = run_workload_table(workload.shared(table.schema), table)
    tables = {name: tables[name] for name in workload.names}
    if separate:
        return {name: like(events, table) for name, table in tables.items()}
    return like(events, unite(tables))


def _run_on(workload: WorkloadLike, events: Any, device: str) -> Tables:
    from cepheid.runtimes import workload_device as there

    source: Any
    if isinstance(events, pa.RecordBatchReader):
        source = timed_reader(plain_reader(events), workload.times)
    else:
        source = timed_table(as_table(events), workload.times)
    shared = workload.shared(source.schema)
    if there.wants_device(device, source):
        tables = there.run_on_device(shared, source, device, merge=workload.merge)
        if tables is not None:
            return tables
    if isinstance(source, pa.RecordBatchReader):
        return run_workload_reader(shared, source)
    return run_workload_table(shared, source)


def run_workload_files(workload: WorkloadLike, files: list[Path]) -> Tables:
    """Run a workload over files; unsorted files are sorted if there are few events."""
    times = workload.times
    schema = schema_of_file(files[0], times)
    shared = workload.shared(schema)
    try:
        tables = read_ahead(read_all(files, None, times))
        return run_workload_batches(shared, _ordered(shared, tables), schema)
    except DataError as error:
        if error.diagnostics[0].code != "E509" or count_events(files) > SORT_ROWS_MAX:
            raise
    table = pa.concat_tables(list(read_all(files, None, times)), promote_options="permissive")
    return run_workload_table(shared, table)
