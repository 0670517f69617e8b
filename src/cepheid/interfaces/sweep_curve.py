"""``cepheid backtest --sweep``: alerts a day, precision and recall for every value of a sweep.

An alert is a row of the query. Labels are events, or stretches of time, that an alert should have
been about. An alert is right if its window meets a label whose attributes are those of its group; a
label is found if an alert meets it.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.api import CompiledQuery
from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.jobs.sources import EventSource
from cepheid.kinds.sweep.local import TYPES
from cepheid.plans.plan import TrendPlan
from cepheid.plans.sweep import SweepPlan

DAY_NS = 86_400_000_000_000
WINDOW = ("window_start", "window_end")
Ints = NDArray[np.int64]


class Labels(NamedTuple):
    """Stretches of time in ticks, both ends included, and the attributes that they are of."""

    begin: Ints
    end: Ints
    keys: pa.Table


def labelled_events(source: EventSource, plan: SweepPlan, column: str) -> Labels:
    """Read the events whose label is true; each is a label of one moment.

    Raises
    ------
    DataError
        E505 if the events have no such column, E506 if it is neither a truth value nor a number.
    """
    _check_column(column, source.schema.names, "the input")
    kind = source.schema.field(column).type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
        message = f"the label `{column}` is of type {kind}, neither a truth value nor 0 or 1"
        raise DataError([Diagnostic("E506", message)])
    names = list(dict.fromkeys([plan.time, column, *plan.partition.group_by]))
    events = source.whole(names)
    values = np.array([bool(value) for value in events[column].to_pylist()], np.bool_)
    chosen = events.take(np.flatnonzero(values))
    times = read_times(Columns(chosen), plan.time)
    return Labels(times, times, chosen.select(list(plan.partition.group_by)))


def labelled_windows(table: pa.Table, plan: SweepPlan) -> Labels:
    """Read stretches of time from a table: `window_start` and `window_end`, which is excluded."""
    for name in WINDOW:
        _check_column(name, table.column_names, "the file of labels")
    columns = Columns(table)
    begin, end = (read_times(columns, name) for name in WINDOW)
    shared = [name for name in plan.partition.group_by if name in table.column_names]
    return Labels(begin, end - 1, table.select(shared))


def _check_column(name: str, known: list[str], owner: str) -> None:
    if name not in known:
        helps = (suggest_names(name, known, owner=owner),)
        raise DataError([Diagnostic("E505", f"{owner} has no column `{name}`", helps=helps)])


def curve(query: CompiledQuery, source: EventSource, labels: Labels | None) -> pa.Table:
    """Build a row for every combination of values: alerts, alerts a day, precision and recall."""
    plan = sweep_of(query.with_schema(source.schema))
    rows = query.run(_events(source))
    names = [parameter.name for parameter in plan.parameters]
    combinations = list(product(*(parameter.values for parameter in plan.parameters)))
    place = {combination: n for n, combination in enumerate(combinations)}
    plain = [_plain(rows[name]) for name in names]
    number = np.array([place[found] for found in zip(*plain, strict=True)], np.int64)
    columns: dict[str, Any] = {
        parameter.name: pa.array([c[n] for c in combinations], TYPES[parameter.kind])
        for n, parameter in enumerate(plan.parameters)
    }
    alerts = np.bincount(number, minlength=len(combinations))
    columns["alerts"] = pa.array(alerts)
    days = _days(source, plan)
    columns["alerts_a_day"] = pa.array(
        [round(float(n) / days, 3) if days else None for n in alerts], pa.float64()
    )
    if labels is not None:
        right, found = _judged(rows, number, len(combinations), labels)
        columns["precision"] = _share(right, alerts)
        columns["recall"] = _share(found, np.full(len(alerts), len(labels.begin)))
    return pa.table(columns)


def sweep_of(query: CompiledQuery) -> SweepPlan:
    """Return the plan of a sweep whose rows have windows.

    Raises
    ------
    WrongUseError
        If it is another query.
    """
    plan = query.plan
    if not isinstance(plan, SweepPlan):
        message = "--sweep takes a query with SWEEP, such as `WHERE T.x > SWEEP limit (1, 2, 5)`"
        raise WrongUseError(message)
    if not all(isinstance(one, TrendPlan) and one.window.within for one in plan.plans):
        message = "the alerts of --sweep need a window: `WITHIN 10 minutes SLIDE 10 minutes`"
        raise WrongUseError(message)
    return plan


def _events(source: EventSource) -> Any:
    events = source.events
    return source.whole(source.schema.names) if isinstance(events, list) else events


def _plain(column: Any) -> list[Any]:
    if pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _days(source: EventSource, plan: SweepPlan) -> float | None:
    times = read_times(Columns(source.whole([plan.time])), plan.time)
    if not len(times) or times.max() == times.min():
        return None
    return float(times.max() - times.min()) * plan.tick_ns / DAY_NS


def _judged(rows: pa.Table, number: Ints, count: int, labels: Labels) -> tuple[Ints, Ints]:
    """Count for every combination the alerts that meet a label, and the labels that are met."""
    columns = Columns(rows)
    begin, end = (read_times(columns, name) for name in WINDOW)
    shared = labels.keys.column_names
    owners = _owners(rows.select(shared), labels.keys, len(rows), len(labels.begin))
    # Most alerts of different values are about the same windows, so each window is judged once.
    cells = np.stack([owners[0], begin, end], axis=1)
    distinct, cell = np.unique(cells, axis=0, return_inverse=True)
    met = [
        np.flatnonzero((owners[1] == key) & (labels.begin < stop) & (labels.end >= start))
        for key, start, stop in distinct.tolist()
    ]
    sizes = np.array([len(found) for found in met], np.int64)
    cell = cell.reshape(-1)
    right = np.bincount(number[sizes[cell] > 0], minlength=count)
    pairs = [np.zeros(0, np.int64)]
    pairs += [number[n] * len(labels.begin) + met[c] for n, c in enumerate(cell.tolist())]
    found = np.unique(np.concatenate(pairs)) // max(len(labels.begin), 1)
    return right, np.bincount(found, minlength=count)


def _owners(rows: pa.Table, keys: pa.Table, alerts: int, labels: int) -> tuple[Ints, Ints]:
    """Give the same numbers to the attributes of alerts and of labels."""
    if not rows.column_names:
        return np.zeros(alerts, np.int64), np.zeros(labels, np.int64)
    known: dict[tuple[Any, ...], int] = {}
    numbers = [
        [known.setdefault(key, len(known)) for key in zip(*_lists(table), strict=True)]
        for table in (rows, keys)
    ]
    return np.array(numbers[0], np.int64), np.array(numbers[1], np.int64)


def _lists(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


def _share(part: Ints, whole: Ints) -> Any:
    pairs = zip(part.tolist(), whole.tolist(), strict=True)
    return pa.array([round(p / w, 4) if w else None for p, w in pairs], pa.float64())


def curve_chart(table: pa.Table, parameters: list[str]) -> dict[str, Any]:
    """Draw precision and recall, or alerts a day, over the values of the first parameter."""
    judged = [name for name in ("precision", "recall") if name in table.column_names]
    shown: list[str] = [*judged] or ["alerts_a_day"]
    first, *others = parameters
    rows = [
        {
            "value": str(row[first]) if isinstance(row[first], str) else _axis_value(row[first]),
            "number": row[name],
            "line": " ".join([name, *(f"{other}={row[other]}" for other in others)]),
        }
        for row in table.to_pylist()
        for name in shown
    ]
    text = pa.types.is_string(table.schema.field(first).type)
    encoding = {
        "x": {"field": "value", "type": "ordinal" if text else "quantitative", "title": first},
        "y": {"field": "number", "type": "quantitative", "title": ", ".join(shown)},
        "color": {"field": "line", "title": ""},
    }
    return {
        "data": {"values": rows},
        "width": 640,
        "height": 260,
        "mark": {"type": "line", "point": len(rows) <= 500},
        "encoding": encoding,
    }


def _axis_value(value: Any) -> float:
    return float(value.total_seconds()) if hasattr(value, "total_seconds") else float(value)
