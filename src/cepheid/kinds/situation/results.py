"""Build the result table of a step: one row per match, or one per situation (§9.7, §9.8)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE, KeyTable, values_of_keys
from cepheid.events.decimals import is_whole
from cepheid.events.nanoseconds import type_of_times
from cepheid.kernels.derive import FOREVER, last_places
from cepheid.kinds.situation.job import Accumulator, KeptValue, SituationJob
from cepheid.kinds.situation.runs import Derived, Step
from cepheid.kinds.situation.stretches import kind_of
from cepheid.plans.situations import SituationColumn

TIME, END, NAME = "ts", "te", "situation"


class Matches(NamedTuple):
    """The situations of each match, one column per definition, and when it became final."""

    rows: NDArray[np.int64]
    when: NDArray[np.int64]


class Selected(NamedTuple):
    """Situations of one definition as of a time: with the events up to that time."""

    derived: Derived
    step: Step
    rows: NDArray[np.int64]
    when: NDArray[np.int64]
    known: NDArray[np.bool_]
    places: NDArray[np.int64]

    @staticmethod
    def at(
        derived: Derived, step: Step, rows: NDArray[np.int64], when: NDArray[np.int64]
    ) -> Selected:
        """Select situations as of given times; open ones have their events so far."""
        known = derived.te[rows] <= when
        places = np.zeros(len(rows), np.int64)
        open_ = np.flatnonzero(~known)
        places[open_] = last_places(
            step.ts, derived.first[rows[open_]], derived.last[rows[open_]], when[open_]
        )
        return Selected(derived, step, rows, when, known, places)


def empty_rows(job: SituationJob, schema: pa.Schema) -> pa.Table:
    """Create an empty result, with the columns that a result over such events has."""
    return result_schema(job, schema).empty_table()


def result_schema(job: SituationJob, schema: pa.Schema) -> pa.Schema:
    """Build the schema of a result over events of a schema."""
    time = type_of_times(kind_of(schema, job.plan.time))
    fields: list[tuple[str, pa.DataType]] = [
        (name, kind_of(schema, name)) for name in job.plan.partition.attributes
    ]
    if job.relates:
        fields.append((TIME, time))
    else:
        fields += [(NAME, pa.string()), (TIME, time), (END, time)]
    for column in job.situations.columns:
        fields.append((column.name, _column_type(column, schema, time)))
    return pa.schema(fields)


def _column_type(column: SituationColumn, schema: pa.Schema, time: pa.DataType) -> pa.DataType:
    match column.function:
        case "START" | "END":
            return time
        case "COUNT":
            return pa.int64()
        case "SUM" | "AVG":
            return pa.float64()
    assert column.attribute is not None, "the binder asks for an attribute"
    kind = kind_of(schema, column.attribute)
    return kind if column.function in ("FIRST", "LAST") else _extreme_type(kind)


def _extreme_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_floating(kind) or (types.is_decimal(kind) and not is_whole(kind)):
        return pa.float64()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_date(kind):
        return pa.date32()
    return pa.duration("us") if types.is_duration(kind) else pa.int64()


def match_rows(
    job: SituationJob,
    keys: KeyTable,
    step: Step,
    derived: list[Derived],
    matches: Matches,
    schema: pa.Schema,
) -> pa.Table:
    """Build the rows of matches, sorted by time, partition and starts."""
    key = step.present[derived[0].key[matches.rows[:, 0]]]
    ranks = _ranks(keys, key)
    starts = [d.ts[matches.rows[:, n]] for n, d in enumerate(derived)]
    order = np.lexsort([*reversed(starts), ranks, matches.when])
    rows, when, key = matches.rows[order], matches.when[order], key[order]
    selected = [Selected.at(d, step, rows[:, n], when) for n, d in enumerate(derived)]
    kinds = result_schema(job, schema)
    arrays = _partition_columns(keys, key, kinds)
    arrays.append(_times(when, kinds.field(TIME).type))
    for column in job.situations.columns:
        kind = kinds.field(column.name).type
        arrays.append(_column(job, column, selected[column.situation], kind))
    return pa.Table.from_arrays(arrays, schema=kinds)


def list_rows(
    job: SituationJob, keys: KeyTable, step: Step, derived: list[Derived], schema: pa.Schema
) -> pa.Table:
    """Build the rows of situations that have ended, sorted by their ends."""
    kinds = result_schema(job, schema)
    listed = [derived[number] for number in set(job.situations.listed)]
    if not any((one.fresh & (one.te != FOREVER)).any() for one in listed):
        return kinds.empty_table()
    tables = [kinds.empty_table()]
    places: list[NDArray[np.int64]] = [np.zeros((4, 0), np.int64)]
    for number in sorted(set(job.situations.listed)):
        here = derived[number]
        rows = np.flatnonzero(here.fresh & (here.te != FOREVER))
        ts, te, key = here.ts[rows], here.te[rows], step.present[here.key[rows]]
        arrays = _partition_columns(keys, key, kinds)
        arrays.append(pa.array([job.definitions[number].name] * len(rows), pa.string()))
        arrays += [_times(times, kinds.field(TIME).type) for times in (ts, te)]
        selected = Selected.at(here, step, rows, te)
        for column in job.situations.columns:
            kind = kinds.field(column.name).type
            mine = column.situation == number
            arrays.append(
                _column(job, column, selected, kind) if mine else pa.nulls(len(rows), kind)
            )
        tables.append(pa.Table.from_arrays(arrays, schema=kinds))
        places.append(np.stack([te, key, np.full(len(rows), number), ts]))
    place = np.concatenate(places, axis=1)
    place[1] = _ranks(keys, place[1])
    return pa.concat_tables(tables).take(np.lexsort(place[::-1]))


def _ranks(keys: KeyTable, key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank the partitions by their values, independent of when they were first seen."""
    if not keys.names:
        return np.zeros(len(key), np.int64)
    distinct, inverse = np.unique(key, return_inverse=True)
    places = [_places(values.take(pa.array(distinct))) for values in keys.arrays()]
    rank = np.empty(len(distinct), np.int64)
    rank[np.lexsort(places[::-1])] = np.arange(len(distinct))
    return rank[inverse]


def _places(values: pa.Array[Any]) -> NDArray[Any]:
    """Rank values; equal values share a rank."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return np.asarray(pc.rank(values, sort_keys="ascending", tiebreaker="dense"))


def _partition_columns(
    keys: KeyTable, key: NDArray[np.int64], kinds: pa.Schema
) -> list[pa.Array[Any]]:
    return [
        values.take(pa.array(key)).cast(kinds.field(name).type)
        for name, values in zip(keys.names, keys.arrays(), strict=True)
    ]


def _times(values: NDArray[np.int64], kind: pa.DataType) -> pa.Array[Any]:
    return pa.array(values, pa.int64()).cast(kind)


def _column(job: SituationJob, column: SituationColumn, at: Selected, kind: pa.DataType) -> Any:
    derived, attribute = at.derived, column.attribute
    match column.function:
        case "START":
            return _times(derived.ts[at.rows], kind)
        case "END":
            te = np.where(at.known, derived.te[at.rows], 0)
            return pa.array(te, pa.int64(), mask=~at.known).cast(kind)
        case "FIRST" | "LAST":
            assert attribute is not None, "the binder asks for an attribute"
            return _value(job, KeptValue(column.function == "LAST", attribute), column, at, kind)
        case "COUNT":
            what = "values" if attribute else "events"
            return pa.array(_total(job, column, Accumulator(what, attribute), at))
        case "MIN" | "MAX":
            largest = column.function == "MAX"
            found = _total(job, column, Accumulator("least", attribute, largest), at)
            return _extreme(found, kind, largest=largest)
    total = _total(job, column, Accumulator("sum", attribute), at)
    count = _total(job, column, Accumulator("values", attribute), at)
    if column.function == "AVG":
        total = total / np.maximum(count, 1)
    return pa.array(total, mask=count == 0)


def _total(
    job: SituationJob, column: SituationColumn, accumulator: Accumulator, at: Selected
) -> NDArray[Any]:
    """Compute an aggregate over the events of situations; open ones use their events so far."""
    number = job.accumulators[column.situation].index(accumulator)
    total = at.derived.totals[number][at.rows]
    open_ = np.flatnonzero(~at.known)
    running = at.derived.running[number]
    if len(open_):
        total[open_] = running[at.places[open_]]
    return total


def _value(
    job: SituationJob, value: KeptValue, column: SituationColumn, at: Selected, kind: pa.DataType
) -> Any:
    place = job.values[column.situation].index(value)
    combined = at.derived.values[place]
    numbers = (at.derived.last_value if value.last else at.derived.first_value)[at.rows]
    if value.last and len(numbers):
        open_ = ~at.known
        kept = len(combined) - len(at.step.order)
        numbers[open_] = kept + at.step.order[at.places[open_]]
    taken = combined.take(pa.array(numbers)).cast(kind)
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _extreme(keys: NDArray[np.int64], kind: pa.DataType, *, largest: bool) -> Any:
    none = keys == NO_VALUE
    double = pa.types.is_floating(kind)
    plain = values_of_keys(np.where(none, 0, keys), largest=largest, double=double)
    array = pa.array(plain, mask=none)
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("us")).cast(kind)
    return array.cast(kind)
