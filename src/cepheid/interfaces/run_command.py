"""``cepheid run``: run a query over files, with progress, and print or write its result."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from cepheid.api import CompiledQuery
from cepheid.events.files import content_of, find_files, read_all, schema_of_file
from cepheid.interfaces.chart_file import Drawing
from cepheid.interfaces.cli_input import WrongUseError, name_of
from cepheid.interfaces.console import (
    ROWS_SHOWN_MAX,
    StandardOutput,
    complain,
    notify,
    say_data,
    show,
    working,
)
from cepheid.interfaces.progress import Reading
from cepheid.jobs.kind import TaskKind, kind_of
from cepheid.pictures.shown_times import MICROSECONDS, ShownTimes
from cepheid.runtimes.files import list_files, run_files
from cepheid.runtimes.notices import look_at
from cepheid.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def offer_why(rows: int) -> None:
    """Say how to learn why a result is empty."""
    if not rows:
        complain("no rows: `cepheid why` with the same query and --input says why")


def named_inputs(compiled: CompiledQuery, inputs: list[str]) -> str | dict[str, str]:
    """Find the files of a query, by the names of its streams if it reads two."""
    plan = compiled.plan
    if len(set(plan.streams)) < 2:
        return inputs[0]
    known = list(plan.streams)
    pairs = [text.partition("=") for text in inputs]
    wrong = [
        text
        for text, (name, equal, _) in zip(inputs, pairs, strict=True)
        if not equal or name not in known
    ]
    names = [name for name, _, _ in pairs]
    if not any(equal for _, equal, _ in pairs):
        return {}
    if wrong or len(set(names)) < len(names):
        message = f"the query reads {' and '.join(known)}: give each once, as {known[0]}=files, "
        message += f"not {', '.join(wrong or names)}"
        raise WrongUseError(message)
    return {name: files for name, _, files in pairs}


def _run_streams(compiled: CompiledQuery, streams: dict[str, str]) -> pa.Table:
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        result: pa.Table = compiled.run(streams)
    notify(notices)
    return result


def run_query(compiled: CompiledQuery, streams: str | dict[str, str]) -> pa.Table:
    """Run a query over the files that a pattern names, with progress on a terminal."""
    if not isinstance(streams, str):
        return _run_streams(compiled, streams)
    files = find_files(streams)
    with warnings.catch_warnings(record=True) as notices, working("starting") as tell:
        warnings.simplefilter("always")
        reading = Reading(files, tell)
        result = run_files(compiled, files, reading.read, reading.open)
    notify(notices)
    return result


def run_changes(compiled: CompiledQuery, pattern: str, changes: object) -> pa.Table:
    """Run a query over the current table of a changelog in files."""
    with warnings.catch_warnings(record=True) as notices, working("reading"):
        warnings.simplefilter("always")
        result: pa.Table = compiled.run(pattern, changes=changes)
    notify(notices)
    return result


def look_at_files(compiled: CompiledQuery, pattern: str) -> tuple[CompiledQuery, list[str]]:
    """Plan a query for the columns of files, and tell what is odd about their events."""
    files = find_files(pattern)
    planned = compiled.with_schema(schema_of_file(files[0], compiled.times))
    if planned.plan.streams:
        return planned, []
    names = [name for name in (planned.plan.time, planned.plan.type) if name is not None]
    return planned, look_at(planned.plan, read_all(files, names, compiled.times))


def run_rules(rules: Workload, pattern: str, master: str | None, *, engine: str) -> pa.Table:
    """Run a workload over the files that a pattern names."""
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        if engine == "spark":
            result = _run_rules_with_spark(rules, pattern, master)
        else:
            result = rules.run(pattern)
    notify(notices)
    return result


def _run_rules_with_spark(rules: Workload, pattern: str, master: str | None) -> pa.Table:
    """Run rules with Spark, and sort the rows by rule and then by window."""
    from cepheid.runtimes.scan import find_paths
    from cepheid.spark import session as spark_session
    from cepheid.spark.failures import clear_failures

    find_paths(pattern)  # Starting Spark to find no file would take seconds.
    with spark_session.session(master) as spark:
        with clear_failures():
            united = rules.run(pattern, spark=spark)
        found = spark_session.collect(united, rules.queries[0].plan)
    ranks = pc.index_in(found["query"], pa.array(rules.names))
    return found.take(pc.array_sort_indices(ranks))


def run_with_spark(
    compiled: CompiledQuery,
    pattern: str | dict[str, str],
    master: str | None,
    changes: object = None,
) -> pa.Table:
    """Run a query over files with Spark, with progress on a terminal."""
    from cepheid.runtimes.spark.choice import measured_run
    from cepheid.spark import session as spark_session

    with measured_run(), _on_spark(compiled, pattern, master, changes) as frame:
        return spark_session.collect(frame, compiled.plan)


def _passes_blobs(compiled: CompiledQuery, pattern: str | dict[str, str]) -> bool:
    """Check whether tasks of Python read the files and few rows come back.

    Java's second compiler takes time for nothing then.
    """
    from cepheid.runtimes.scan import find_paths

    plan = compiled.plan
    if not isinstance(pattern, str) or plan.lists_matches:
        return False
    tasks = isinstance(kind_of(plan), TaskKind)
    return tasks and all(content_of(path) == "parquet" for path in find_paths(pattern))


@contextmanager
def _on_spark(
    compiled: CompiledQuery,
    pattern: str | dict[str, str],
    master: str | None,
    changes: object = None,
) -> Iterator[DataFrame]:
    """Run a query over files as a DataFrame, with progress on a terminal."""
    # Spark takes a second to load, and most commands do not need it.
    from cepheid.runtimes.scan import find_paths
    from cepheid.spark import session as spark_session
    from cepheid.spark.failures import clear_failures

    for files in [pattern] if isinstance(pattern, str) else pattern.values():
        find_paths(files)  # Starting Spark to find no file would take seconds.
    with warnings.catch_warnings(record=True) as notices, working("starting Spark") as tell:
        warnings.simplefilter("always")
        with spark_session.session(master, light=_passes_blobs(compiled, pattern)) as spark:
            tell("running")
            with clear_failures():
                frame = compiled.run(pattern, spark=spark, changes=changes)
            with spark_session.watch(spark, tell):
                yield frame
    notify(notices)


def write_matches_with_spark(
    compiled: CompiledQuery,
    pattern: str,
    master: str | None,
    kind: str,
    output: Path | None,
    drawing: Drawing,
) -> None:
    """List the matches of a query over files with Spark, without collecting them in memory."""
    from cepheid.spark import parts as spark_parts

    with _on_spark(compiled, pattern, master) as frame:
        if kind == "table":
            table = spark_parts.first_rows(frame, ROWS_SHOWN_MAX + 1)
            drawing.add(table)
        else:
            # On a cluster the folder of the result is likely one that all machines share.
            where = output.parent if output is not None else None
            with tempfile.TemporaryDirectory(prefix=".cepheid-", dir=where) as folder:
                tables = drawing.watch(spark_parts.tables_of(frame, Path(folder) / "matches"))
                _write_all(spark_parts.schema_of(frame), tables, kind, output)
            return
    _print_matches(table, compiled)


def write_matches(
    compiled: CompiledQuery, pattern: str, kind: str, output: Path | None, drawing: Drawing
) -> None:
    """List the matches of a query over files, as they are found; a table shows the first ones."""
    with _reading(compiled, pattern) as (schema, listed):
        tables = drawing.watch(listed)
        if kind != "table":
            _write_all(schema, tables, kind, output)
            return
        first = [schema.empty_table(), *_until(tables, ROWS_SHOWN_MAX + 1)]
    _print_matches(pa.concat_tables(first), compiled)


def _print_matches(table: pa.Table, compiled: CompiledQuery) -> None:
    times = ShownTimes(compiled.source.time, compiled.source.time_unit)
    print_table(table.slice(0, ROWS_SHOWN_MAX), times)
    offer_why(len(table))
    if len(table) > ROWS_SHOWN_MAX and compiled.plan.limit is None:
        note = "the first matches only: add LIMIT, or write all to a file with --output"
        show(note)


def _write_all(
    schema: pa.Schema, tables: Iterator[pa.Table], kind: str, output: Path | None
) -> None:
    """Write tables to a file atomically, or to standard output."""
    if output is None:
        offer_why(_write_tables(schema, tables, kind, StandardOutput()))
        return
    with _replacing(output) as temporary, temporary.open("wb") as sink:
        rows = _write_tables(schema, tables, kind, sink)
    offer_why(rows)


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """Give a file beside the output, which takes its place in the end."""
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(output)
    except OSError as error:
        message = f"could not write {name_of(str(output))}: {error.strerror or error}"
        raise WrongUseError(message) from None
    finally:
        if temporary.exists():
            temporary.unlink()


@contextmanager
def _reading(
    compiled: CompiledQuery, pattern: str
) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """Open the matches of files, with progress on a terminal."""
    files = find_files(pattern)
    with warnings.catch_warnings(record=True) as notices, working("starting") as tell:
        warnings.simplefilter("always")
        reading = Reading(files, tell)
        yield list_files(compiled, files, reading.read, reading.open)
    notify(notices)


def _until(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield tables until there are enough rows."""
    total = 0
    for table in tables:
        yield table
        total += len(table)
        if total >= rows:
            return


def _write_tables(schema: pa.Schema, tables: Iterator[pa.Table], kind: str, sink: Any) -> int:
    """Write tables one after the other, and return the number of rows."""
    rows = 0
    match kind:
        case "parquet":
            with parquet.ParquetWriter(sink, schema) as writer:
                for table in tables:
                    rows += len(table)
                    writer.write_table(table)
        case "csv":
            shape = _with_texts(schema.empty_table()).schema
            with csv.CSVWriter(sink, shape) as writer:
                for table in tables:
                    rows += len(table)
                    writer.write_table(_with_texts(table))
        case _:
            for table in tables:
                rows += len(table)
                sink.write(_encode(table, "json"))
    return rows


def _with_texts(table: pa.Table) -> pa.Table:
    """Convert what CSV has no form for to the text that JSON has for it."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or str(field.type).endswith(("binary", "_view")):
            values = table.column(place).to_pylist()
            texts = [None if value is None else _json_text(value) for value in values]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _json_text(value: object) -> str:
    # Texts and bytes are a cell as they are: it has quotes of its own.
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return value if isinstance(value, str) else text.strip('"')


def print_table(table: pa.Table, times: ShownTimes) -> None:
    """Print the first rows of a table, and how many there are."""
    # Rich takes longer to load than a small query, and files do not need it.
    from cepheid.interfaces import tables

    tables.print_table(times.of(table))


def write_result(
    table: pa.Table, kind: str, output: Path | None, times: ShownTimes = MICROSECONDS
) -> None:
    """Write a result to a file atomically, or to standard output."""
    if output is None and kind == "table":
        print_table(table, times)
        return
    data = _encode(table, kind)
    if output is None:
        say_data(data)
        return
    with _replacing(output) as temporary:
        temporary.write_bytes(data)


def _encode(table: pa.Table, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    match kind:
        case "parquet":
            parquet.write_table(table, sink)
        case "csv":
            csv.write_csv(_with_texts(table), sink)
        case _:
            lines = (msgspec.json.encode(row, enc_hook=str) for row in table.to_pylist())
            sink.write(b"".join(line + b"\n" for line in lines))
    return sink.getvalue().to_pybytes()
