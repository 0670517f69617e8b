"""A sweep as a curve, as ``cepheid backtest --sweep`` prints it: how right each value is.

An alert is a row of the query. Labels are events, or stretches of time, that an alert should have
been about. An alert is right if its window meets a label whose attributes are those of its group; a
label is found if an alert meets it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.arriving import as_table
from cepheid.jobs.sources import EventSource, source_of
from cepheid.kinds.sweep.local import TYPES
from cepheid.options import refuse
from cepheid.plans.plan import TrendPlan
from cepheid.plans.sweep import SweepPlan

if TYPE_CHECKING:
    from cepheid.api import CompiledQuery

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


def sweep_curve(
    query: CompiledQuery, events: object, *, label: str | None = None, labels: object = None
) -> pa.Table:
    """Judge every value of a query with SWEEP: its alerts and, with labels, how right they are.

    An alert is a row of the query. It is right if its window meets a label of its group, and a
    label is found if an alert meets it; ``cepheid.pictures.chart`` draws the answer.

    Parameters
    ----------
    query
        A query with SWEEP and WITHIN.
    events
        As for :meth:`cepheid.CompiledQuery.run` in process; a reader is read into memory.
    label
        A column of the events that is true, or not 0, for those that an alert should be about.
    labels
        Instead, a table with ``window_start`` and ``window_end``, and GROUP-BY attributes.

    Returns
    -------
    pyarrow.Table
        A row for every value, or combination of values: ``alerts``, ``alerts_a_day`` and, with
        labels, ``precision`` and ``recall``.

    Raises
    ------
    OptionError
        E592 if the query has no SWEEP or no WITHIN, or there are labels of both kinds.
    DataError
        E505 or E506 if labels cannot be read.

    Examples
    --------
    >>> import cepheid
    >>> large = "PATTERN A WHERE A.x > SWEEP limit (1, 5) WITHIN 9 us SLIDE 9 us"
    >>> events = pa.table({"ts": [1, 11], "type": ["A", "A"], "x": [7, 3], "bad": [1, 0]})
    >>> curve = sweep_curve(cepheid.query(f"RETURN COUNT(*) {large}"), events, label="bad")
    >>> curve["precision"].to_pylist()
    [0.5, 1.0]
    """
    if label is not None and labels is not None:
        refuse("E592", "name the labels once: a column of the events, or a table of windows")
    source = source_of(events, query.times)
    if isinstance(source.events, pa.RecordBatchReader):
        source = source_of(source.events.read_all(), query.times)
    plan = _sweep_of(query.with_schema(source.schema))
    judged = None if labels is None else labelled_windows(as_table(labels), plan)
    if label is not None:
        judged = labelled_events(source, plan, label)
    return _curve(query, source, plan, judged)


def _curve(
    query: CompiledQuery, source: EventSource, plan: SweepPlan, labels: Labels | None
) -> pa.Table:
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


def _sweep_of(query: CompiledQuery) -> SweepPlan:
    """Return the plan of a sweep whose rows have windows."""
    plan = query.plan
    if not isinstance(plan, SweepPlan):
        message = "a curve takes a query with SWEEP, such as `WHERE T.x > SWEEP limit (1, 2, 5)`"
        refuse("E592", message)
    trends = [one for one in plan.plans if isinstance(one, TrendPlan)]
    if len(trends) < len(plan.plans):
        refuse("E592", "the rows of a funnel are steps, no alerts: name a pattern without FUNNEL")
    if not all(one.window.within for one in trends):
        refuse("E592", "alerts need a window: `WITHIN 10 minutes SLIDE 10 minutes`")
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
