"""Compares engine and oracle: tables from events, and rows that must be equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cepheid.api import CompiledQuery
from cepheid.errors import UnsupportedError
from cepheid.kinds.trend.program.job import Job
from cepheid.plans.plan import TrendPlan

KINDS = {
    "ts": pa.int64(),
    "type": pa.string(),
    "price": pa.float64(),
    "volume": pa.int64(),
    "key": pa.string(),
    "zone": pa.string(),
    "flag": pa.bool_(),
}


def table_of(events: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return events of the oracle as a table."""
    names = dict.fromkeys(["ts", "type", *(name for event in events for name in event)])
    if events and not any(event.get("type") for event in events):
        del names["type"]  # Data without types (§1.2).
    return pa.table({name: _array([event.get(name) for event in events], name) for name in names})


NUMBER = "number"
"""A column that tells events apart."""


def numbered(events: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return events of the oracle as a table, with their numbers."""
    table = table_of(events)
    return table.append_column(NUMBER, pa.array(range(len(table)), pa.int64()))


def readable(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Return listed matches, of the engine or of the oracle, in one form and in no order."""
    found: Counter[str] = Counter()
    for row in rows:
        cells = {name: value for name, value in row.items() if name != "match_id"}
        if "events" in row:
            cells["events"] = tuple(
                _binding(e) if isinstance(e, dict) else e for e in row["events"]
            )
        found[repr(sorted(cells.items()))] += 1
    return found


def _binding(event: dict[str, Any]) -> tuple[Any, ...]:
    """Return an event of a match as the oracle has it; one of a set tells of which match."""
    part = (event["match"],) if "match" in event else ()
    return (event["variable"], event[NUMBER], *part)


def plain_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which events are numbers, as the oracle has them."""

    def plain(name: str, value: Any) -> Any:
        if name == "event" and isinstance(value, dict):
            return value[NUMBER]
        if name != "events":
            return value
        return tuple(_binding(e) if isinstance(e, dict) else e for e in value)

    return [{name: plain(name, value) for name, value in row.items()} for row in rows]


def supported(compiled: CompiledQuery) -> bool:
    """Return whether a query can be run at all (docs/errors.md, E402 to E404)."""
    try:
        Job(TrendPlan.of(compiled.plan))
    except UnsupportedError:
        return False
    return True


def _array(values: list[object], name: str) -> pa.Array[Any]:
    """Return a column of the usual type of its name, or of whatever its values are."""
    if name == "type" and not any(values):
        return pa.nulls(len(values), pa.string())
    try:
        return pa.array(values, KINDS.get(name))
    except pa.ArrowException:
        return pa.array(values)


def same_rows(actual: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Return whether two results are equal, doubles within a relative error of 1e-9."""
    return len(actual) == len(expected) and all(
        mine.keys() == theirs.keys()
        and all(same_value(mine[n], theirs[n]) and same_kind(n, mine[n], theirs[n]) for n in theirs)
        for mine, theirs in zip(actual, expected, strict=True)
    )


def with_double_counts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with counts as doubles: beside another rule's doubles they are doubles, too."""
    return [
        {n: float(v) if n.startswith("count") and isinstance(v, int) else v for n, v in row.items()}
        for row in rows
    ]


def same_kind(name: str, actual: Any, expected: Any) -> bool:
    """Return whether two counts or sums are both whole numbers, or both doubles (§5.4)."""
    counted = name.startswith(("count", "sum"))
    return not counted or isinstance(actual, float) == isinstance(expected, float)


def same_value(actual: Any, expected: Any) -> bool:
    """Return whether two values are equal; NaN equals itself."""
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(same_value, actual, expected))
    if isinstance(actual, dict) and isinstance(expected, dict):
        return same_rows([actual], [expected])
    if isinstance(actual, float) and isinstance(expected, int | float):
        if math.isnan(actual) or math.isnan(expected):
            return math.isnan(actual) and math.isnan(expected)
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(actual == expected)
