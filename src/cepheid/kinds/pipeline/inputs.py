"""The events that a stage reads: those of several streams as one table, in order (§15.4, §15.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import BindError, Diagnostic
from cepheid.events.files import present
from cepheid.events.nanoseconds import is_nanoseconds, type_of_times
from cepheid.events.schema import ValueKind
from cepheid.events.schema import kind_of as value_kind
from cepheid.jobs.derived import STREAM
from cepheid.jobs.ordering import ordered
from cepheid.plans.plan import BASE_STREAM, PipelinePlan, SelectPlan, StagePlan


class ConflictError(Exception):
    """A column has different types in two streams."""

    def __init__(self, column: str, first: object, second: object) -> None:
        super().__init__(column, first, second)
        self.column, self.first, self.second = column, first, second


class Inputs(NamedTuple):
    """The streams that a stage reads, with the schema of each and that of all of them.

    ``apart`` streams are sides of a join: each has columns of its own.
    """

    stage: StagePlan
    time: str
    type: str
    hidden: tuple[str, ...]
    apart: bool
    schema: pa.Schema

    @staticmethod
    def of(plan: PipelinePlan, number: int, schemas: Sequence[pa.Schema]) -> Inputs:
        """Describe the input of a stage, given the schemas of all streams before it."""
        stage, kind = plan.stages[number], plan.type or ""
        apart = len(stage.plan.streams) > 1
        derived = tuple(plan.stages[n - 1].name for n in stage.reads if n != BASE_STREAM)
        hidden = derived if BASE_STREAM in stage.reads and not apart else ()
        schema = input_schema(stage, dict(enumerate(schemas)), plan.time, kind)
        return Inputs(stage, plan.time, kind, hidden, apart, schema)

    def table(self, streams: Mapping[int, pa.Table]) -> pa.Table:
        """Merge the events of all streams, in the order of the stage."""
        parts = []
        for place, number in enumerate(self.stage.reads):
            events = streams[number]
            if self.apart:
                parts.append(self._side(events, place))
            else:
                parts.append(_cast(self._visible(events, number), self.schema))
        if self.stage.reads == (BASE_STREAM,):
            # They come in order.
            return parts[0]
        whole = pa.concat_tables(parts)
        if not self.apart:
            return ordered(whole, self.stage.plan)
        return whole.take(np.argsort(times_in(whole, self.time), kind="stable"))

    def _visible(self, events: pa.Table, number: int) -> pa.Table:
        """Hide base events that have the type of a derived stream."""
        if number != BASE_STREAM or not self.hidden or self.type not in events.column_names:
            return events
        known = events[self.type].cast(pa.string())
        hides = pc.is_in(known, value_set=pa.array(self.hidden, pa.string()))
        return events.filter(pc.invert(hides)) if pc.any(hides).as_py() else events

    def _side(self, events: pa.Table, place: int) -> pa.Table:
        """Give a side of a join columns of its own, beside the time of all events."""
        columns: list[Any] = []
        for field in self.schema:
            if field.name == STREAM:
                columns.append(pa.repeat(pa.scalar(place, pa.int8()), len(events)))
            elif field.name == self.time:
                columns.append(_as(events[self.time], field.type))
            elif field.name.startswith(f"{place}:"):
                columns.append(events[field.name[2:]])
            else:
                columns.append(pa.nulls(len(events), field.type))
        return pa.Table.from_arrays(columns, schema=self.schema)


def input_schema(
    stage: StagePlan, schemas: Mapping[int, pa.Schema], time: str, type_column: str
) -> pa.Schema:
    """Build the schema of all events that a stage reads.

    Raises
    ------
    BindError
        E355 if a column has different types in the streams that a pattern reads.
    """
    read = [_selected(schemas[n], stage, place) for place, n in enumerate(stage.reads)]
    if len(stage.plan.streams) > 1:
        return _joined(read, time)
    try:
        return merged(read, time, type_column)
    except ConflictError as error:
        message = f"the column `{error.column}` is {error.first} in one stream and {error.second} "
        message += "in another one that the same query reads"
        helps = (f"give one a name of its own: `AS my_{error.column}`",)
        raise BindError([Diagnostic("E355", message, helps=helps)], stage.plan.text) from None


def event_schema(stage: StagePlan, time: str, type_column: str, rows: pa.Schema) -> pa.Schema:
    """Build the schema of the events that the rows of a stage are (§15.2)."""
    own: list[tuple[str, pa.DataType]] = [
        (time, rows.field(stage.times[0]).type),
        (type_column, pa.string()),
    ]
    gone = {*stage.hidden, time, type_column}
    return pa.schema([*own, *((f.name, f.type) for f in rows if f.name not in gone)])


def as_events(
    stage: StagePlan, time: str, type_column: str, rows: pa.Table, schema: pa.Schema
) -> pa.Table:
    """Convert the rows of a stage to events of its stream, of a schema."""
    times: Any = rows[stage.times[0]]
    for name in stage.times[1:]:
        # Arrow has no larger of two times with zones.
        later = pc.greater(times, rows[name])
        times = pc.if_else(later, times, rows[name])
    if stage.delay:
        times = _later(times, stage.delay)
    columns: list[Any] = []
    for field in schema:
        if field.name == time:
            columns.append(times)
        elif field.name == type_column:
            columns.append(pa.repeat(pa.scalar(stage.name, pa.string()), len(rows)))
        else:
            columns.append(rows[field.name])
    return pa.Table.from_arrays(columns, schema=schema)


def _later(times: Any, ticks: int) -> Any:
    """Add ticks to times: nanoseconds and whole numbers as they are, else microseconds.

    Times of coarser types are rounded up, so that no event comes before it is certain.
    """
    kind = times.type
    if pa.types.is_integer(kind) or is_nanoseconds(kind):
        return pc.add(times.cast(pa.int64()), ticks).cast(kind)
    exact = pa.timestamp("us", getattr(kind, "tz", None))
    moved: Any = pc.add(times.cast(exact).cast(pa.int64()), ticks).cast(exact)
    if kind == exact:
        return moved
    if pa.types.is_date(kind):
        return pc.ceil_temporal(moved, unit="day").cast(kind)
    whole: Any = pc.ceil_temporal(moved, unit="second" if kind.unit == "s" else "millisecond")
    return whole.cast(kind)


def _selected(schema: pa.Schema, stage: StagePlan, place: int) -> pa.Schema:
    """Select the columns of a stream that a stage reads, and its time."""
    wanted = columns_read(stage, place)
    names = schema.names if wanted is None else present(schema.names, wanted)
    if stage.plan.time in schema.names and stage.plan.time not in names:
        names = [stage.plan.time, *names]
    return pa.schema([schema.field(name) for name in names])


def columns_read(stage: StagePlan, place: int) -> tuple[str, ...] | None:
    """List the columns of the stream at a place that a stage reads; None is all of them."""
    plan = stage.plan
    if not isinstance(plan, SelectPlan) or len(plan.streams) == 1:
        return plan.columns
    streams = plan.select.streams
    name = list(dict.fromkeys(plan.streams))[place if len(stage.reads) > 1 else 0]
    whole = len(stage.reads) == 1
    read = [stream.reads for stream in streams if whole or stream.name == name]
    if None in read:
        return None
    return tuple(dict.fromkeys(name for names in read for name in names or ()))


def _joined(schemas: Sequence[pa.Schema], time: str) -> pa.Schema:
    """Build the schema of the sides of a join, each with its own columns."""
    kind = type_of_times(schemas[0].field(time).type)
    fields: list[tuple[str, pa.DataType]] = [(time, kind)]
    if len(schemas) > 1:
        fields.append((STREAM, pa.int8()))
    for place, schema in enumerate(schemas):
        fields += [(f"{place}:{field.name}", field.type) for field in schema]
    return pa.schema(fields)


def merged(schemas: Sequence[pa.Schema], time: str, type_column: str) -> pa.Schema:
    """Build the schema of several streams; each column has one type.

    Raises
    ------
    ConflictError
        If a column has types of different kinds.
    """
    if len(schemas) == 1:
        return schemas[0]
    found: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            if field.name == type_column:
                kind: pa.DataType = pa.string()
            elif field.name == time:
                kind = type_of_times(field.type)
            else:
                kind = field.type
            before = found.get(field.name, kind)
            found[field.name] = kind if before == kind else _wider(field.name, before, kind)
    return pa.schema(list(found.items()))


def _wider(name: str, first: pa.DataType, second: pa.DataType) -> pa.DataType:
    kinds = [value_kind(str(kind)) for kind in (first, second)]
    if ValueKind.UNKNOWN in kinds:
        return second if kinds[0] is ValueKind.UNKNOWN else first
    if kinds[0] is kinds[1] is ValueKind.TEXT:
        return pa.string()
    if kinds[0] is kinds[1]:
        fields = [pa.schema([(name, kind)]) for kind in (first, second)]
        try:
            whole = pa.unify_schemas(fields, promote_options="permissive")
            found: pa.DataType = whole.field(name).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise ConflictError(name, first, second) from None
        return found
    raise ConflictError(name, first, second)


def one_stream(
    tables: Sequence[pa.Table], columns: Sequence[str] | None, time: str, type_column: str
) -> pa.Table:
    """Put the events of several streams one after the other, with the columns that are read."""
    read = [
        table.select([n for n in table.column_names if columns is None or n in (*columns, time)])
        for table in tables
    ]
    schema = merged([table.schema for table in read], time, type_column)
    return pa.concat_tables([_cast(table, schema) for table in read])


def _cast(events: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give events the columns of a schema; those that they lack are NULL."""
    columns = [
        _as(events[field.name], field.type)
        if field.name in events.column_names
        else pa.nulls(len(events), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _as(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)


def times_in(table: pa.Table, time: str) -> NDArray[np.int64]:
    """Read the times of events."""
    return read_times(Columns(table), time)
