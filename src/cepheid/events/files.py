"""Read files of events as tables: Parquet, Arrow, CSV, TSV, JSON lines, EVTX, batch by batch.

Several files are read in the order of their names, as event logs are written.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from cepheid.errors import DataError, Diagnostic
from cepheid.events.arriving import plain_table, with_texts
from cepheid.events.json_lines import PACKED, read_json_lines
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.text_times import timed_like, timed_table
from cepheid.events.time_formats import TextTimes
from cepheid.events.windows_log import read_windows_log

ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".evtx": "evtx",
}
"""The format of a file, by the end of its name."""

IN_ONE_PIECE = ("json", "evtx")
"""Formats whose files are read as one table."""

BATCH_ROWS = 1 << 18
"""Events of one batch: large enough to hide the cost of a step, small enough for the caches."""

LONG_ROWS = 1 << 14
"""Chunks of as many events on average are batches as they are."""


def find_files(pattern: str) -> list[Path]:
    """Find the files that a path, a folder or a pattern with ``*`` names, in order.

    Raises
    ------
    DataError
        E501 if there are none.
    """
    path = Path(pattern)
    try:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
        elif path.is_file():
            found = [path]
        else:
            found = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
    except OSError as error:
        message = f"could not look for files in `{pattern}`: {error}"
        raise DataError([Diagnostic("E501", message)]) from error
    if not found:
        message = f"no file matches `{pattern}`"
        helps = ("name a file, a folder, or a pattern: 'events/*.parquet'",)
        raise DataError([Diagnostic("E501", message, helps=helps)])
    return found


def content_of(name: str) -> str:
    """Tell the format of a file by the end of its name; an empty text if it is unknown.

    Examples
    --------
    >>> content_of("log/Monday.CSV.gz"), content_of("events.parquet"), content_of("a.parquet.gz")
    ('csv', 'parquet', '')
    """
    path = Path(name)
    if path.suffix.lower() not in PACKED:
        return ENDINGS.get(path.suffix.lower(), "")
    inner = ENDINGS.get(Path(path.stem).suffix.lower(), "")
    return inner if inner in ("csv", "tsv", "json") else ""


def csv_options(content: str) -> csv.ParseOptions:
    """Choose the separator of fields: a comma, or in TSV a tab."""
    return csv.ParseOptions(delimiter="\t" if content == "tsv" else ",")


def check_separator(file: Path, content: str, names: Sequence[str]) -> None:
    """Refuse a text whose fields have another separator: all of them would be one column."""
    wanted = "\t" if content == "tsv" else ","
    other = next((mark for mark in ";\t,|" if mark != wanted and mark in "".join(names)), "")
    if len(names) > 1 or not other:
        return
    known = {"\t": ("tabs", ".tsv"), ",": ("commas", ".csv")}
    called, ending = known.get(other, (f"`{other}`", ""))
    message = f"the fields of `{file}` are separated by {called}, not {known[wanted][0]}"
    usual = "separate them by commas, or by tabs in a file that ends in .tsv"
    helps = (f"let its name end in {ending}" if ending else usual,)
    raise DataError([Diagnostic("E501", message, helps=helps)])


def names_read(columns: Sequence[str] | None, schema: pa.Schema) -> list[str] | None:
    """Choose the columns to read from files, None for all; fields come with the structure."""
    if columns is None:
        return None
    # A query that reads no column counts events, of which some column is needed.
    return present(schema.names, columns) or schema.names[:1]


def present(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Select the names that exist in a schema; fields come with the whole structure."""
    wanted = {name if name in names else name.partition(".")[0] for name in columns}
    return [name for name in names if name in wanted]


def count_events(files: list[Path]) -> int:
    """Count the events in files."""
    return sum(len(batch) for batch in read_all(files))


def schema_of_file(file: Path, times: TextTimes | None) -> pa.Schema:
    """Read the columns of a file, as ``read_all`` yields them: of Parquet no event is read."""
    return next(read_all([file], None, times, batch_rows=1, groups=lambda _: [])).schema


def read_all(
    files: list[Path],
    columns: Sequence[str] | None = None,
    times: TextTimes | None = None,
    opened: Callable[[int], None] = lambda _: None,
    encoded: Sequence[str] = (),
    batch_rows: int | None = None,
    groups: Callable[[parquet.ParquetFile], list[int] | None] | None = None,
) -> Iterator[pa.Table]:
    """Yield the events of files, batch by batch; raise E501 if one cannot be read.

    From Parquet files only the named columns are read; other formats may include more. A time
    column that is text is read as ``times`` says; without them it stays text. ``opened`` hears
    the place of each file. Texts of ``encoded`` columns come from Parquet as dictionaries, which
    is several times as fast; ``batch_rows`` is the size of batches there. ``groups`` chooses
    the row groups that are read.
    """
    first: pa.Schema | None = None
    for place, file in enumerate(files):
        row = 0
        opened(place)
        try:
            size = batch_rows or BATCH_ROWS
            for read in _read_file(file, columns, times, encoded, size, groups):
                table = read if times is None else timed_table(read, times, row)
                row += len(read)
                # The unit of times is that of the first file.
                first = table.schema if first is None else first
                table = table if times is None else timed_like(table, first, times)
                yield in_units_of(table, first)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise unreadable_file(file, error) from error


def unreadable_file(file: Path, error: Exception) -> DataError:
    """Build the error for a file that cannot be read (E501)."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError([Diagnostic("E501", f"could not read `{file}`: {reason}")])


def _in_batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches; short chunks are put together, as work on a batch has its costs."""
    if table.num_columns and len(table) > LONG_ROWS * table.column(0).num_chunks:
        yield from table.to_batches(BATCH_ROWS)
        return
    for offset in range(0, len(table), BATCH_ROWS):
        yield from table.slice(offset, BATCH_ROWS).combine_chunks().to_batches()


def text_columns(times: TextTimes | None) -> pa.Schema:
    """Choose the columns that stay text: a time whose format is named is not guessed by Arrow."""
    named = times is not None and times.format
    return pa.schema([(times.column, pa.string())] if times is not None and named else [])


def _open_parquet(file: Path, encoded: Sequence[str]) -> parquet.ParquetFile:
    """Open a file, with dictionaries in place of texts in some columns."""
    source = parquet.ParquetFile(file)
    texts = [f.name for f in source.schema_arrow if f.name in encoded and f.type == pa.string()]
    if not texts:
        return source
    return parquet.ParquetFile(file, metadata=source.metadata, read_dictionary=texts)


def _read_file(
    file: Path,
    columns: Sequence[str] | None,
    times: TextTimes | None,
    encoded: Sequence[str],
    batch_rows: int,
    groups: Callable[[parquet.ParquetFile], list[int] | None] | None,
) -> Iterator[pa.Table]:
    """Yield the events of one file; a file without events yields one empty table."""
    match content_of(file.name):
        case "parquet":
            source = _open_parquet(file, encoded)
            names = source.schema_arrow.names
            kept = None if columns is None else [name for name in names if name in columns]
            chosen = None if groups is None else groups(source)
            batches: Any = source.iter_batches(batch_rows, row_groups=chosen, columns=kept)
            empty = source.schema_arrow.empty_table()
            empty = empty if kept is None else empty.select(kept)
        case "csv" | "tsv" as content:
            read = csv.ReadOptions(block_size=1 << 24)
            convert = csv.ConvertOptions(
                column_types=text_columns(times),
                # As Spark reads it: an empty cell is NULL, and `NA` is a text.
                strings_can_be_null=True,
                null_values=[""],
            )
            reader = csv.open_csv(
                file,
                read_options=read,
                parse_options=csv_options(content),
                convert_options=convert,
            )
            check_separator(file, content, reader.schema.names)
            batches, empty = reader, reader.schema.empty_table()
        case "json":
            table = read_json_lines(file, text_columns(times))
            batches, empty = _in_batches(table), table.schema.empty_table()
        case "evtx":
            table = read_windows_log(file)
            batches, empty = table.to_batches(BATCH_ROWS), table.schema.empty_table()
        case "arrow":
            opened = pa.ipc.open_file(pa.memory_map(str(file)))
            batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            empty = opened.schema.empty_table()
        case _:
            message = (
                f"could not read `{file}`: files that end in `{file.suffix}` are not supported"
            )
            helps = ("use files that end in .parquet, .csv, .tsv, .jsonl, .arrow or .csv.gz",)
            raise DataError([Diagnostic("E501", message, helps=helps)])
    some = False
    for batch in batches:
        some = True
        yield plain_table(with_texts(pa.Table.from_batches([batch]), encoded))
    if not some:
        yield plain_table(with_texts(empty, encoded))
