"""``cepheid backtest``: what rules would have reported of a stretch of history, in one pass."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.errors import CepheidError, DataError, Diagnostic, QueryError, suggest_names
from cepheid.events.schema import read_schema
from cepheid.garbage import without_collections
from cepheid.interfaces.alert_formats import Alert, without_log
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.limited_rules import check_columns, untimed_limit
from cepheid.interfaces.logs import COLUMN
from cepheid.interfaces.rule_queries import Ready, Refusals, RuleQuery
from cepheid.jobs.sources import EventSource
from cepheid.kinds.workload.alert_limits import DUPLICATE, OVER_LIMIT, SHOWN, WHY, Throttle
from cepheid.kinds.workload.dated_rows import Dated, dated
from cepheid.kinds.workload.json_rows import json_rows
from cepheid.patterns.scope import likely_time
from cepheid.runtimes.backtest import Pass, run_pass
from cepheid.store.snapshot import Interval

_NO_FATES = np.zeros(0, np.int8)
DAY_NS = 86_400_000_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class NoRuleLeftError(Exception):
    """All rules are refused, and told; there is nothing to run."""


class Stretch(NamedTuple):
    """The history that is read: events, and two times in words between which they lie."""

    source: EventSource
    since: str | None = None
    until: str | None = None


class Reported(NamedTuple):
    """The report of a rule: its rows with their times in ticks, and which of them are alerts."""

    query: RuleQuery
    rows: pa.Table
    times: NDArray[np.int64] | None
    fates: NDArray[np.int8]

    def count(self, fate: int) -> int:
        """Count the rows of one fate."""
        return int(np.count_nonzero(self.fates == fate))


class Backtest(NamedTuple):
    """The reports of rules, and the pass over the events that gave them."""

    reports: tuple[Reported, ...]
    done: Pass
    kind: pa.DataType
    days: float | None
    seconds: Mapping[str, float]
    tick_ns: int

    def table(self) -> pa.Table:
        """Build a row for each rule or variant: how often, when first and last, at what cost."""
        found = self.reports
        names = ("rows", "duplicates", "over_limit", "alerts")
        counts = [
            (len(one.fates), one.count(DUPLICATE), one.count(OVER_LIMIT), one.count(SHOWN))
            for one in found
        ]
        columns: dict[str, Any] = {
            "rule": pa.array([one.query.rule.name for one in found], pa.string()),
            "variant": pa.array([one.query.values for one in found], pa.string()),
            "owner": pa.array([one.query.rule.owner or None for one in found], pa.string()),
            "tags": pa.array([_tags(one) for one in found], pa.string()),
            "severity": pa.array([one.query.rule.severity or None for one in found], pa.string()),
        }
        for place, name in enumerate(names):
            columns[name] = pa.array([one[place] for one in counts], pa.int64())
        a_day = [round(one[-1] / self.days, 3) if self.days else None for one in counts]
        columns["alerts_a_day"] = pa.array(a_day, pa.float64())
        edges = [_edges(one) for one in found]
        for place, name in enumerate(("first", "last")):
            columns[name] = pa.array([edge[place] for edge in edges], pa.int64()).cast(self.kind)
        if self.seconds:
            alone = [round(self.seconds[one.query.variant.name], 4) for one in found]
            columns["seconds"] = pa.array(alone, pa.float64())
        return pa.table(columns)

    def summary(self) -> pa.Table:
        """Build the columns that people look at first, in few characters."""
        whole = self.table()
        columns: dict[str, Any] = {
            "rule": pa.array([one.query.variant.name for one in self.reports], pa.string()),
            "rows": whole["rows"],
            "suppressed": pc.add(whole["duplicates"], whole["over_limit"]),
        }
        for name in whole.column_names[whole.column_names.index("alerts") :]:
            column = whole[name]
            if pa.types.is_timestamp(column.type):
                column = pc.floor_temporal(column, unit="second")
            columns[name] = column
        return pa.table(columns)

    def alerts(self) -> pa.Table:
        """Build a row for each row of each rule, with its values as JSON; none is left out."""
        parts = [_alerts_of(one, self.kind) for one in self.reports]
        return pa.concat_tables(parts)

    def shown_alerts(self) -> list[Alert]:
        """List the alerts that are not suppressed, in the order of their times."""
        found = [
            without_log(one) for report in self.reports for one in _shown(report, self.tick_ns)
        ]
        return sorted(found, key=lambda one: (one.at_ns is None, one.at_ns or 0))


def _tags(one: Reported) -> str | None:
    return ",".join(one.query.rule.tags) or None


def _edges(one: Reported) -> tuple[int | None, int | None]:
    if one.times is None or not one.count(SHOWN):
        return None, None
    shown = one.times[one.fates == SHOWN]
    return int(shown.min()), int(shown.max())


def _alerts_of(one: Reported, kind: pa.DataType) -> pa.Table:
    count = len(one.rows)
    order = np.arange(count) if one.times is None else np.argsort(one.times, kind="stable")
    at: Any = pa.array([None] * count, kind)
    if one.times is not None:
        at = pa.array(one.times[order], pa.int64()).cast(kind)
    name, variant, severity = one.query.rule.name, one.query.values, one.query.rule.severity
    owner = one.query.rule.owner or None
    columns: dict[str, Any] = {
        "rule": pa.array([name] * count, pa.string()),
        "variant": pa.array([variant] * count, pa.string()),
        "owner": pa.array([owner] * count, pa.string()),
        "tags": pa.array([_tags(one)] * count, pa.string()),
        "severity": pa.array([severity or None] * count, pa.string()),
        "at": at,
        "suppressed": pa.array([WHY[fate] for fate in one.fates[order].tolist()], pa.string()),
        "values": json_rows(one.rows.take(order)),
    }
    return pa.table(columns)


def _shown(report: Reported, tick_ns: int) -> Iterator[Alert]:
    rule = report.query.rule
    shown = np.flatnonzero(report.fates == SHOWN)
    if not len(shown):
        return  # Of most rules; a table of hundreds of columns takes long to turn into nothing.
    table = report.rows if len(shown) == len(report.rows) else report.rows.take(shown)
    some = [name for name in table.column_names if table[name].null_count < len(table)]
    rows = table.select(some).to_pylist()
    times = [None] * len(rows) if report.times is None else report.times[shown].tolist()
    for row, at in zip(rows, times, strict=True):
        row.pop("match_id", None)
        at_ns = None if at is None else at * tick_ns
        yield Alert(
            rule.name, report.query.values, rule.owner, rule.tags, rule.severity, at_ns, row
        )


def backtest(
    ready: Ready,
    stretch: Stretch,
    refusals: Refusals,
    tell: Callable[[int], None],
    *,
    measure: bool = False,
) -> Backtest:
    """Run all rules over a stretch of history, each variant as a query of its own.

    Parameters
    ----------
    ready
        The rules that could be read.
    stretch
        The events, and the times between which they lie: ISO 8601, or whole numbers for times
        that are such.
    refusals
        Told of rules that do not fit the events, or whose limits do not fit their rows.
    tell
        Called with the number of events that have been read.
    measure
        Whether each query is also run alone, to know its seconds.

    Raises
    ------
    WrongUseError
        If a time cannot be read.
    DataError
        If the events are at fault; E212 if they have no time.
    NoRuleLeftError
        If all rules are refused.
    """
    source = stretch.source
    _check_time(ready.workload.times.column, source.schema)
    plans = _plans(ready, source.schema, refusals)
    first = next(iter(plans.values())).plan
    column = source.schema.field(first.time).type
    span = Interval(
        _tick("--from", stretch.since, column, first.tick_ns),
        _tick("--to", stretch.until, column, first.tick_ns),
    )
    if span.begin is not None and span.end is not None and span.begin >= span.end:
        message = f"--from {stretch.since} is not before --to {stretch.until}"
        raise WrongUseError(message)
    done = run_pass({name: one.plan for name, one in plans.items()}, source, span, tell)
    reports = []
    refused: set[str] = set()
    for name, one in plans.items():
        try:
            reports.append(_reported(ready.queries[name], one, done, first.tick_ns))
        except DataError as error:
            if error.file not in refused:
                refusals.add(error)
            refused.add(error.file)
    seconds = {}
    if measure:
        for name, one in plans.items():
            seconds[name] = run_pass({name: one.plan}, source, span, tell).seconds
    days = _days(span, done, first.tick_ns)
    kind = _kind_of(column, first.tick_ns)
    return Backtest(tuple(reports), done, kind, days, seconds, first.tick_ns)


def _check_time(name: str, schema: pa.Schema) -> None:
    """Refuse events without the time column: each rule would complain, or need no time."""
    columns = read_schema(schema)
    if name in schema.names or columns is None:
        return
    likely = likely_time(columns).strip('"')
    usual = "rows of an event log need a time: add a column with it"
    way_out = usual if likely == "..." else f"name it: `--time {likely}`"
    helps = (way_out, suggest_names(name, schema.names, owner="the stream"))
    message = f"the events have no time column `{name}`"
    raise DataError([Diagnostic("E212", message, helps=helps)])


@without_collections(kept=True)
def _plans(ready: Ready, schema: pa.Schema, refusals: Refusals) -> dict[str, Dated]:
    """Plan all queries for the columns of events; rules that do not fit are refused alone."""
    columns = read_schema(schema)
    plans: dict[str, Dated] = {}
    refused: set[str] = set()
    for name, query in ready.queries.items():
        rule = query.rule
        if rule.name in refused:
            continue
        why: CepheidError | None = None
        try:
            plans[name] = dated(query.compiled.with_schema(columns).plan)
        except QueryError as error:
            why = error
        else:
            if not plans[name].times:
                why = untimed_limit(rule)
        if why is not None:
            why.file = rule.name
            refusals.add(why)
            refused.add(rule.name)
    kept = {name: plan for name, plan in plans.items() if _rule(ready, name) not in refused}
    if not kept:
        raise NoRuleLeftError
    return kept


def _rule(ready: Ready, name: str) -> str:
    return ready.queries[name].rule.name


def _reported(query: RuleQuery, plan: Dated, done: Pass, tick_ns: int) -> Reported:
    rows = done.rows[query.variant.name]
    limits = (query.rule.deduplicate, query.rule.rate_limit)
    if not len(rows) and limits == (None, None):
        return Reported(query, rows, None, _NO_FATES)  # As most rules have over most events.
    times = plan.read(rows, done.last or 0)
    shown = plan.shown(rows)
    if COLUMN in shown.column_names:
        shown = shown.drop_columns([COLUMN])
    fates = np.full(len(rows), SHOWN, np.int8)
    for limit, fate in zip(limits, (DUPLICATE, OVER_LIMIT), strict=True):
        if limit is not None:
            assert times is not None, "limits of rows without times are refused"
            check_columns(query.rule, limit, shown.column_names)
            Throttle(limit, tick_ns).suppress(shown, times, fates, fate)
    return Reported(query, shown, times, fates)


def _days(span: Interval, done: Pass, tick_ns: int) -> float | None:
    begin = done.first if span.begin is None else span.begin
    end = done.last if span.end is None else span.end
    if begin is None or end is None or end <= begin:
        return None
    return (end - begin) * tick_ns / DAY_NS


def _kind_of(column: pa.DataType, tick_ns: int) -> pa.DataType:
    """Choose the type of times in reports; that of the events, as exact as ticks."""
    if pa.types.is_integer(column):
        return pa.int64()
    return pa.timestamp("ns" if tick_ns == 1 else "us", getattr(column, "tz", None))


def _tick(option: str, text: str | None, column: pa.DataType, tick_ns: int) -> int | None:
    """Read a time of the command line."""
    if text is None:
        return None
    if pa.types.is_integer(column) and re.fullmatch(r"[+-]?\d{1,19}", text.strip()):
        return int(text)
    try:
        time = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        message = f"{option} is a time such as 2026-01-31 or '2026-01-31 13:30:00', not {text}"
        raise WrongUseError(message) from None
    whole = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
    return (whole - _EPOCH) // dt.timedelta(microseconds=1) * 1_000 // tick_ns
