"""Files of lines of JSON in, parts of events out; a file never lies in memory.

The files are read twice: once for the names and types of all fields, because a field that is a
number in one line may be a text in the last one, and once for the events. A line that is no object,
and an event whose time cannot be read, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.arrays.event_parts import Distinct, Places, distinct_values
from cepheid.arrays.json_scan import Names, Room, Scan
from cepheid.arrays.pool import keep_freed_memory
from cepheid.events.files import text_columns, unreadable_file
from cepheid.events.json_lines import PART_BYTES, line_parts
from cepheid.events.text_times import TIME_TYPE, is_text, read_text_times, timed_schema, timed_table
from cepheid.events.time_formats import TextTimes

_SHOWN = 60


class JsonEvents:
    """The events of files of lines of JSON.

    Attributes
    ----------
    schema
        The columns, those that are absent from all lines among them.
    lines_left_out, first_left_out
        How many lines are no objects, and the first of them, shortened.
    untimed
        How many events have no time that can be read, known once the parts were read.
    """

    def __init__(self, files: list[Path], times: TextTimes) -> None:
        """Read the names and types of fields.

        Raises
        ------
        DataError
            E501 if a file cannot be read, or has lines and none of them is an object.
        """
        keep_freed_memory()
        self._files, self._times = files, times
        self.lines_left_out, self.first_left_out, self.untimed = 0, "", 0
        self._names, self._room, some = Names(), Room(), False
        for scan in self._scans(learn=True):
            some = some or len(scan) > 0
            self.lines_left_out += len(scan.left_out)
            if scan.left_out and not self.first_left_out:
                self.first_left_out = _shown(scan.left_out[0])
        if self.lines_left_out and not some:
            message = f"no line is an object of JSON; the first is `{self.first_left_out}`"
            raise unreadable_file(files[0], pa.ArrowInvalid(message))
        try:
            read = self._names.schema()
        except pa.ArrowException as error:
            raise unreadable_file(files[0], error) from error
        for field in text_columns(times):
            place = read.get_field_index(field.name)
            if place >= 0 and pa.types.is_timestamp(read.field(place).type):
                read = read.set(place, field)
        if not some and times.column not in read.names:
            read = read.append(pa.field(times.column, TIME_TYPE))  # So that files may be empty.
        self._read, self.schema = read, timed_schema(read, times)

    def notices(self) -> list[str]:
        """Tell what was left out, once the parts were read."""
        told = []
        if self.lines_left_out:
            many = "1 line is no object" if self.lines_left_out == 1 else ""
            many = many or f"{self.lines_left_out:,} lines are no objects"
            told.append(f"{many} of JSON and left out, the first is `{self.first_left_out}`")
        if self.untimed:
            many = "1 event has" if self.untimed == 1 else f"{self.untimed:,} events have"
            told.append(f"{many} no time in `{self._times.column}` that can be read: left out")
        return told

    def with_absent(self, names: list[str]) -> None:
        """Add columns of NULL."""
        for name in names:
            self.schema = self.schema.append(pa.field(name, pa.null()))

    def parts(self) -> Iterator[LinesPart]:
        """Yield the events part by part, at least one part.

        Raises
        ------
        DataError
            E506 or E580 if no event before has a time, and this one has none.
        """
        self.untimed, count = 0, 0
        for scan in self._scans(learn=False):
            part = LinesPart(scan, self._read, self.schema, self._times)
            timed = part.timed_rows()
            if timed is not None and (len(timed) or count):
                self.untimed += len(scan) - len(timed)
                lines = np.frombuffer(scan.lines_of(timed), np.uint8)
                part = part.of(Scan(lines, self._names))
            count += len(part)
            yield part
        if not count:
            nothing = Scan(np.zeros(0, np.uint8), self._names)
            yield LinesPart(nothing, self._read, self.schema, self._times)

    def _scans(self, *, learn: bool) -> Iterator[Scan]:
        for file in self._files:
            try:
                for part in line_parts(file, PART_BYTES):
                    scan = Scan(np.frombuffer(part, np.uint8), self._names, self._room)
                    if learn:
                        scan.learn_types()
                    yield scan
            except (pa.ArrowException, OSError) as error:
                raise unreadable_file(file, error) from error


class LinesPart:
    """Events of lines of JSON, whose values are read when they are asked for."""

    def __init__(self, scan: Scan, read: pa.Schema, schema: pa.Schema, times: TextTimes) -> None:
        """Take a scan, the types as they are read, the columns, and how times are read."""
        self._scan, self._read, self._schema, self._times = scan, read, schema, times
        self._timed: pa.Table | None = None

    def __len__(self) -> int:
        """Count the events."""
        return len(self._scan)

    def of(self, scan: Scan) -> LinesPart:
        """Return a part of other lines."""
        return LinesPart(scan, self._read, self._schema, self._times)

    def timed_rows(self) -> Places | None:
        """Return the rows that have a time, None if all of them have."""
        name = self._times.column
        if self._read.get_field_index(name) < 0:
            return None
        column: Any = self._scan.column(name, self._read.field(name).type)
        wrong = np.zeros(len(column), np.bool_)
        if is_text(column.type):
            column, wrong = read_text_times(column, self._times.compiled())
        if not column.null_count:
            self._timed = pa.table({name: column})
            return None
        return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False) & ~wrong)

    def present(self, rows: Places | None) -> set[str] | None:
        """Find the columns that have values in all rows or some."""
        return self._scan.present(rows)

    def arrow(self, name: str, rows: Places | None = None) -> pa.ChunkedArray[Any]:
        """Return a column of all rows or of some."""
        if self._schema.get_field_index(name) < 0:
            # A part of a structure, or the error that tells of the name.
            outer = [one for one in (name.partition(".")[0],) if one in self._schema.names]
            return Columns(self._columns(outer or self._schema.names, rows)).arrow(name)
        return self._columns([name], rows).column(0)

    def distinct(self, name: str, rows: Places | None) -> Distinct | None:
        """Return the distinct values of a column; None for structures and lists."""
        place = self._read.get_field_index(name)
        if place < 0 or not self._is_plain(self._read.field(place)):
            return distinct_values(self.arrow(name, rows))
        return self._scan.distinct(name, self._read.field(place).type, rows)

    def table(self, names: list[str]) -> pa.Table:
        """Return columns of all events."""
        if self._timed is not None and names == self._timed.column_names:
            return self._timed
        return self._columns(names, None)

    def take(self, rows: Places) -> pa.Table:
        """Return some events with all their columns."""
        lines = np.frombuffer(self._scan.lines_of(rows), np.uint8)
        return self.of(Scan(lines, self._scan.names)).table(self._schema.names)

    def _is_plain(self, field: pa.Field[Any]) -> bool:
        return not (pa.types.is_nested(field.type) or field.name == self._times.column)

    def _columns(self, names: list[str], rows: Places | None) -> pa.Table:
        count = len(self) if rows is None else len(rows)
        present = self._scan.present(rows) if len(names) > 1 else None
        columns = {}
        for name in names:
            kind = self._schema.field(name).type
            place = self._read.get_field_index(name)
            if place < 0 or (present is not None and name not in present):
                columns[name] = pa.nulls(count, kind)
            else:
                columns[name] = self._scan.column(name, self._read.field(place).type, rows)
        fields = pa.schema([(name, column.type) for name, column in columns.items()])
        return timed_table(pa.table(columns, schema=fields), self._times)


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
