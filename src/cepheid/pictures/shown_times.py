"""Whole numbers that are times, shown to people as times: in tables and charts of a result.

Files keep the numbers. Numbers of other years, such as those of a counter, stay as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.runtimes.notices import YEARS

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
WINDOW = ("window_start", "window_end")
SITUATION = ("ts", "te")
_KINDS: dict[str, pa.DataType] = {
    "s": pa.timestamp("s", "UTC"),
    "ms": pa.timestamp("ms", "UTC"),
    "us": pa.timestamp("us", "UTC"),
    "ns": pa.timestamp("ns", "UTC"),
}


class ShownTimes(NamedTuple):
    """The time column of a query's events, and the unit of its whole numbers."""

    time: str
    unit: str

    def of(self, table: pa.Table) -> pa.Table:
        """Return a result with times in the place of whole numbers that are times."""
        names = set(table.column_names)
        if len(names) < table.num_columns:
            return table  # Names that two columns have tell nothing.
        for pair in (WINDOW, *([SITUATION] if "situation" in names else [])):
            if names >= set(pair) and all(self._are_dates(table[name]) for name in pair):
                for name in pair:
                    place = table.column_names.index(name)
                    table = table.set_column(place, name, self._dates(table[name]))
        if "events" in names:
            place = table.column_names.index("events")
            table = table.set_column(place, "events", self._in_events(table["events"]))
        if "event" in names and pa.types.is_struct(table.schema.field("event").type):
            place = table.column_names.index("event")
            table = table.set_column(place, "event", self._in_event(table["event"]))
        return table

    def of_events(self, events: pa.Table) -> pa.Table:
        """Return events with times in the place of whole numbers that are times."""
        place = events.column_names.index(self.time) if self.time in events.column_names else -1
        if place < 0 or not self._are_dates(events[self.time]):
            return events
        return events.set_column(place, self.time, self._dates(events[self.time]))

    def _are_dates(self, values: pa.ChunkedArray[Any]) -> bool:
        if not pa.types.is_int64(values.type):
            return False
        ends: Any = pc.min_max(values).as_py()
        least, most = (year * TICKS[self.unit] for year in YEARS)
        return ends["min"] is not None and least <= ends["min"] and ends["max"] < most

    def _dates(self, values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        return values.cast(_KINDS[self.unit])

    def _in_events(self, column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """Convert the times of the events of matches."""
        kind = column.type
        if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
            return column
        place = kind.value_type.get_field_index(self.time)
        if place < 0 or not column.num_chunks:
            return column
        events = pa.chunked_array([pc.list_flatten(chunk) for chunk in column.chunks])
        if not self._are_dates(pc.struct_field(events, [place])):
            return column
        return pa.chunked_array([self._converted(chunk, place) for chunk in column.chunks])

    def _in_event(self, column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """Convert the times of the events of BLAME."""
        place = column.type.get_field_index(self.time)
        if (
            place < 0
            or not column.num_chunks
            or not self._are_dates(pc.struct_field(column, [place]))
        ):
            return column
        return pa.chunked_array([self._with_dates(chunk, place) for chunk in column.chunks])

    def _with_dates(self, events: Any, place: int) -> Any:
        fields = [events.type.field(n) for n in range(events.type.num_fields)]
        values = [pc.struct_field(events, [n]) for n in range(len(fields))]
        values[place] = values[place].cast(_KINDS[self.unit])
        return pa.StructArray.from_arrays(values, [field.name for field in fields])

    def _converted(self, lists: pa.Array[Any], place: int) -> pa.Array[Any]:
        named = self._with_dates(pc.list_flatten(lists), place)
        lengths = pc.list_value_length(lists)
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(ends, named)


MICROSECONDS = ShownTimes("ts", "us")
"""The usual way to show times."""
