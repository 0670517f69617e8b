"""Read times that are text out of Arrow columns, as timestamps in microseconds and UTC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as typed
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.time_formats import (
    MONTHS,
    USUAL,
    TextTimes,
    TimeFormat,
    microseconds,
    time_format,
)

pc: Any = typed  # The stubs know no scalars beside arrays.

TIME_TYPE = pa.timestamp("us", "UTC")
YEAR_ONE_US = -62_135_596_800_000_000
HOUR_ONLY = 13
"""The length of ``2026-01-31T10``."""


class _OfNumpy:
    """Arithmetic of whole numbers in NumPy."""

    def divide(self, left: Any, right: int) -> Any:
        """Divide whole numbers, rounded down."""
        return left // right

    def whole(self, condition: Any) -> Any:
        """Convert a condition to 0 and 1."""
        return np.asarray(condition, np.int64)


def is_text(kind: pa.DataType) -> bool:
    """Check whether a column holds text, in any encoding."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    )


def read_text_times(texts: Any, form: TimeFormat) -> tuple[Any, NDArray[np.bool_]]:
    """Read texts as timestamps; return them and a mask of texts that are not NULL and no times.

    Unreadable texts are NULL. This is the one place that decides what is readable in process.
    """
    plain: Any = texts
    if isinstance(texts, pa.ChunkedArray):
        # Chunks of dictionaries may have different ones, which `combine_chunks` merges.
        plain = texts.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        # Texts are read once each, however many events have them.
        read, wrong = read_text_times(plain.dictionary, form)
        odd = pc.fill_null(pc.take(pa.array(wrong), plain.indices), fill_value=False)
        return read.take(plain.indices), np.asarray(odd.to_numpy(zero_copy_only=False), np.bool_)
    if not form.text:
        quick = _read_quickly(plain)
        if quick is not None:
            return quick, np.zeros(len(plain), np.bool_)
    return _read_by_parts(plain, form)


def _read_quickly(texts: Any) -> Any:
    """Read texts as Arrow does, if all are ISO 8601 and all have a zone, or none; else None."""
    lengths = pc.binary_length(texts)
    if pc.any(pc.equal(lengths, HOUR_ONLY)).as_py():
        return None
    for kind in (pa.timestamp("us"), TIME_TYPE):
        try:
            read = texts.cast(kind).cast(TIME_TYPE)
        except pa.ArrowInvalid:
            continue
        first = pc.min(read.cast(pa.int64())).as_py()
        return read if first is None or first >= YEAR_ONE_US else None
    return None


def _read_by_parts(texts: Any, form: TimeFormat) -> tuple[Any, NDArray[np.bool_]]:
    """Take texts apart by the expression of a format."""
    groups = iter(range(len(form.parts)))
    pattern = _named(form.pattern, groups)
    found = pc.extract_regex(texts.cast(pa.large_string()), pattern)
    fits = np.asarray(found.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    parts = {
        _column_of(name): _numbers(name, found.field(number))
        for number, name in enumerate(form.parts)
    }
    times, valid = microseconds(parts, _OfNumpy())
    known = fits & np.broadcast_to(np.asarray(valid, np.bool_), fits.shape)
    steps = np.where(known, np.broadcast_to(times, fits.shape), 0).astype(np.int64)
    read = pa.array(steps, mask=~known).cast(TIME_TYPE)
    given = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return read, given & ~known


def _named(pattern: str, groups: Iterator[int]) -> str:
    """Name the groups of an expression: Arrow takes named ones alone."""
    out, place = [], 0
    while place < len(pattern):
        step = 2 if pattern[place] == "\\" else 1
        piece = pattern[place : place + step]
        if piece == "(" and pattern[place + 1] != "?":
            piece = f"(?P<g{next(groups)}>"
        out.append(piece)
        place += step
    return "".join(out)


def _column_of(part: str) -> str:
    return "month" if part == "month_name" else part


def _numbers(part: str, texts: Any) -> NDArray[np.int64]:
    """Convert the texts of a part to whole numbers; a part that is not there is 0."""
    lower = pc.fill_null(pc.utf8_lower(texts), "")
    if part == "month_name":
        short = pc.utf8_slice_codeunits(lower, 0, 3)
        names = pa.array(MONTHS, pa.large_string())
        places = pc.fill_null(pc.index_in(short, value_set=names), -1)
        return np.asarray(places.to_numpy(zero_copy_only=False), np.int64) + 1
    if part == "half":
        return np.asarray(pc.equal(lower, "pm").to_numpy(zero_copy_only=False), np.int64)
    if part == "sign":
        return 1 - 2 * np.asarray(pc.equal(lower, "-").to_numpy(zero_copy_only=False), np.int64)
    if part == "fraction":
        lower = pc.utf8_slice_codeunits(pc.utf8_rpad(lower, 9, "0"), 0, 6)
    digits = pc.if_else(pc.equal(lower, ""), "0", lower)
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


# ---------------------------------------------------------------------------------------
# Tables and readers


def timed_table(table: pa.Table, times: TextTimes, first_row: int = 0) -> pa.Table:
    """Read the time column of a table, if it is text; other tables are returned unchanged.

    Raises
    ------
    DataError
        E580 for a text that is no time, with its row, counted from ``first_row``.

    Examples
    --------
    >>> table = pa.table({"ts": ["31/01/2026 10:30"]})
    >>> timed_table(table, TextTimes("ts", "%d/%m/%Y %H:%M"))["ts"][0].as_py().isoformat()
    '2026-01-31T10:30:00+00:00'
    """
    place = table.schema.get_field_index(times.column)
    if place < 0 or not is_text(table.schema.field(place).type):
        return table
    column: Any = table.column(place)
    read, wrong = read_text_times(column, times.compiled())
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise unreadable(times, str(column[row].as_py()), first_row + row)
    field = table.schema.field(place).with_type(TIME_TYPE)
    return table.set_column(place, field, read)


def timed_schema(schema: pa.Schema, times: TextTimes) -> pa.Schema:
    """Compute the schema of ``timed_table``."""
    place = schema.get_field_index(times.column)
    if place < 0 or not is_text(schema.field(place).type):
        return schema
    return schema.set(place, schema.field(place).with_type(TIME_TYPE))


def timed_like(table: pa.Table, schema: pa.Schema, times: TextTimes) -> pa.Table:
    """Give times the zone of a schema: Arrow guesses it from the texts of each file."""
    place, known = table.schema.get_field_index(times.column), schema.get_field_index(times.column)
    if place < 0 or known < 0 or table.schema.field(place).type == schema.field(known).type:
        return table
    kind, wanted = table.schema.field(place).type, schema.field(known).type
    if not pa.types.is_timestamp(kind) or not pa.types.is_timestamp(wanted) or kind.tz == wanted.tz:
        return table
    zoned = pa.timestamp(kind.unit, wanted.tz)
    column: Any = table.column(place)
    return table.set_column(place, table.schema.field(place).with_type(zoned), column.cast(zoned))


def timed_reader(reader: pa.RecordBatchReader, times: TextTimes) -> pa.RecordBatchReader:
    """Wrap a reader so that its time column is no text."""
    schema = timed_schema(reader.schema, times)
    if schema == reader.schema:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in reader:
            table = timed_table(pa.Table.from_batches([batch]), times, row)
            row += len(batch)
            yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def unreadable(times: TextTimes, text: str, row: int | None = None) -> DataError:
    """Build the error for a text that is no time (E580), with a format that would read it."""
    where = f" in row {row}" if row is not None else ""
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    message = f"the time `{shown}`{where} of `{times.column}` is not {times.compiled().name}"
    return DataError([Diagnostic("E580", message, helps=(format_help(text),))])


def format_help(text: str) -> str:
    """Suggest a format that reads a text."""
    array = pa.array([text])
    if not read_text_times(array, time_format(""))[1].any():
        return "leave out the format: this text is ISO 8601"
    fits = [form for form in USUAL if not read_text_times(array, time_format(form))[1].any()]
    if fits:
        return f"name its format: `cepheid.query(..., time_format='{fits[0]}')`"
    return "name the format of its times: `cepheid.query(..., time_format='%d/%m/%Y %H:%M:%S')`"
