"""Row groups of Parquet files that a query leaves out, by the least and largest of their values.

A group is read if one of the query's alternatives may hold for an event in it. Where a file says
nothing of a column, it may. It is also read if the file tells of a time in it that is refused where
it is read: then the query is refused whichever groups it needs. Files without statistics of times,
such as those with times of 96 bits that Spark writes, do not tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from cepheid.arrays.noticing import current
from cepheid.events.files import content_of
from cepheid.events.nanoseconds import is_nanoseconds
from cepheid.events.temporal import TIME_MAX
from cepheid.jobs.kind import kind_of
from cepheid.patterns.thresholds import Threshold
from cepheid.plans.plan import Plan
from cepheid.store.candidates import LookUp, look_up_of
from cepheid.store.filter_plan import ticks_of

Choose = Callable[[parquet.ParquetFile], list[int] | None]
"""Chooses the row groups of a file that are read; None for all."""

_Test = Callable[[Any], bool]
"""Checks whether a comparison may hold in the part of a column that has the given statistics."""


def group_choice(plan: Plan) -> Choose | None:
    """Build the choice of row groups for a query; None if every event matters to it."""
    alternatives = kind_of(plan).alternatives(plan)
    if alternatives is None:
        return None
    # What is left out may have a type that no other event has.
    names = [one.event_type for one in kind_of(plan).named_types(plan)]

    def choose(file: parquet.ParquetFile) -> list[int] | None:
        found = groups_of(file, alternatives, plan.time)
        if len(found) == file.num_row_groups:
            return None
        noticed = current()
        if noticed is not None:
            noticed.add_types(names)
        return found

    return choose


def groups_read(plan: Plan, files: Sequence[Path]) -> tuple[int, int]:
    """Count the row groups of files that a query reads, and all of them; both 0 if it reads all."""
    alternatives = kind_of(plan).alternatives(plan)
    read = total = 0
    for path in files if alternatives is not None else ():
        if content_of(path.name) == "parquet":
            with parquet.ParquetFile(path) as file:
                read += len(groups_of(file, alternatives or (), plan.time))
                total += file.num_row_groups
    return read, total


def groups_of(
    file: parquet.ParquetFile, alternatives: Sequence[Sequence[Threshold]], time: str
) -> list[int]:
    """Find the row groups in which one of the alternatives may hold."""
    metadata = file.metadata
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    schema = pa.schema([field.with_type(_plain(field.type)) for field in file.schema_arrow])
    tests = [
        [
            (places[one.attribute], test)
            for one in comparisons
            if one.attribute in places and (test := _test(one, file, schema, time)) is not None
        ]
        for comparisons in alternatives
    ]
    if not all(tests):
        return list(range(metadata.num_row_groups))
    wanted = {place for one in tests for place, _ in one}
    factor = _factor_of_times(file, schema, time)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        known = {place: group.column(place).statistics for place in wanted}
        refused = factor and _has_refused(group.column(places[time]).statistics, factor)
        if refused or any(all(test(known[place]) for place, test in one) for one in tests):
            found.append(number)
    return found


def _factor_of_times(file: parquet.ParquetFile, schema: pa.Schema, time: str) -> int:
    """Return the ticks of a unit of the times in a file; 0 if they cannot be compared."""
    if time not in schema.names:
        return 0
    kind: Any = schema.field(time).type
    comparable = pa.types.is_timestamp(kind) or pa.types.is_signed_integer(kind)
    return _factor(file, time, kind) if comparable else 0


def _has_refused(statistics: Any, factor: int) -> bool:
    """Check whether statistics tell of a NULL, or of a time that is too far from 1970."""
    if statistics is None:
        return False
    if statistics.has_null_count and statistics.null_count:
        return True
    if not statistics.has_min_max:
        return False
    least, largest = statistics.min_raw * factor, statistics.max_raw * factor
    return bool(least < -TIME_MAX or largest > TIME_MAX)


def _plain(kind: Any) -> pa.DataType:
    plain: pa.DataType = kind.value_type if pa.types.is_dictionary(kind) else kind
    return plain


def _test(
    threshold: Threshold, file: parquet.ParquetFile, schema: pa.Schema, time: str
) -> _Test | None:
    """Build the test of a comparison; None if minima and maxima cannot tell."""
    if threshold.attribute == time:
        return _test_of_time(threshold, file, schema.field(time).type)
    look_up = look_up_of(threshold, schema)
    return None if look_up is None else lambda statistics: _may_hold(statistics, look_up)


def _test_of_time(
    threshold: Threshold, file: parquet.ParquetFile, kind: pa.DataType
) -> _Test | None:
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        return None
    bounds = ticks_of(threshold, kind)
    factor = _factor(file, threshold.attribute, kind)
    if bounds is None or not factor:
        return None
    begin, end = bounds

    def test(statistics: Any) -> bool:
        if statistics is None or not statistics.has_min_max:
            return True
        least, largest = statistics.min_raw * factor, statistics.max_raw * factor
        return (begin is None or largest >= begin) and (end is None or least < end)

    return test


def _factor(file: parquet.ParquetFile, time: str, kind: pa.DataType) -> int:
    """Return the ticks of a unit of the times in a file; 0 if it is not known."""
    if pa.types.is_integer(kind):
        return 1
    metadata = file.metadata
    place = next(n for n in range(metadata.num_columns) if metadata.schema.column(n).path == time)
    unit = json.loads(metadata.schema.column(place).logical_type.to_json()).get("timeUnit", "")
    if is_nanoseconds(kind):
        return int(unit == "nanoseconds")
    return {"microseconds": 1, "milliseconds": 1_000}.get(unit, 0)


def _may_hold(statistics: Any, look_up: LookUp) -> bool:
    """Check whether a comparison with constants may hold between a minimum and a maximum.

    Files leave NaN out of both, and it is larger than every number.
    """
    if statistics is None:
        return True
    if statistics.has_null_count and not statistics.num_values:
        return False  # All are NULL.
    if not statistics.has_min_max:
        return True
    least, largest = statistics.min, statistics.max
    number = isinstance(least, float)
    if number and (math.isnan(least) or math.isnan(largest)):
        return True
    tests: dict[str, Callable[[Any], bool]] = {
        "=": lambda value: least <= value <= largest,
        "<": lambda value: least < value,
        "<=": lambda value: least <= value,
        ">": lambda value: number or largest > value,
        ">=": lambda value: number or largest >= value,
    }
    test = tests.get(look_up.operator)
    return test is None or any(map(test, look_up.values))
