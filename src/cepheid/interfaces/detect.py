"""``cepheid detect``: rules and files of events in, alerts out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.api import CompiledQuery
from cepheid.errors import QueryError
from cepheid.events.files import find_files, read_all
from cepheid.interfaces.alert_formats import Alert
from cepheid.interfaces.backtest import Reported, Stretch, backtest
from cepheid.interfaces.rule_queries import Ready, Refusals
from cepheid.jobs.sources import EventSource, source_of
from cepheid.kinds.workload.alert_limits import SHOWN

WHOLE_BYTES_MAX = 256 << 20
"""The size of files that are read as one table."""

_NO_ATTRIBUTE = re.compile(r"has no attribute `([^`]+)`")


class Detected(NamedTuple):
    """The alerts of all rules in the order of their times, and what was read.

    ``absent`` are the fields that rules name and no event has.
    """

    alerts: list[Alert]
    absent: list[str]
    events: int
    seconds: float


def detect(ready: Ready, inputs: Sequence[str], refusals: Refusals) -> Detected:
    """Run rules over files; a field that rules name and no event has is NULL.

    Raises
    ------
    DataError
        If the events are at fault.
    SystemExit
        If no rule is left.
    """
    source, absent = read_events(ready, inputs)
    found = backtest(ready, Stretch(source), refusals, lambda _: None)
    first = next(iter(ready.queries.values())).compiled.with_schema(source.schema)
    tick_ns = first.plan.tick_ns
    alerts = [one for report in found.reports for one in _alerts(report, tick_ns)]
    alerts.sort(key=lambda one: (one.at_ns is None, one.at_ns or 0))
    return Detected(alerts, absent, found.done.events, found.done.seconds)


def read_events(ready: Ready, inputs: Sequence[str]) -> tuple[EventSource, list[str]]:
    """Read files, with columns of NULL for the fields that only rules name.

    Few events are read once, as one table. Of more, each file is opened first to know its columns,
    and the events are read file by file when the rules run.
    """
    times = ready.workload.times
    files = [file for pattern in inputs for file in find_files(pattern)]
    if sum(file.stat().st_size for file in files) > WHOLE_BYTES_MAX:
        schemas = [next(read_all([file], None, times)).schema for file in files]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        absent = sorted(absent_columns(ready, schema))
        known = pa.schema([*schema, *(pa.field(name, pa.null()) for name in absent)])
        return EventSource(known, files, times=times, fitted=True), absent
    table = pa.concat_tables(read_all(files, None, times), promote_options="permissive")
    absent = sorted(absent_columns(ready, table.schema))
    for name in absent:
        table = table.append_column(name, pa.nulls(len(table)))
    return source_of(table, times), absent


def absent_columns(ready: Ready, schema: pa.Schema) -> set[str]:
    """Find the columns that rules name and events lack: those that planning does not find."""
    absent: set[str] = set()
    for query in ready.queries.values():
        missing = _missing(query.compiled, schema)
        while missing - absent:
            absent |= missing
            schema = pa.schema([*schema, *(pa.field(name, pa.null()) for name in missing)])
            missing = _missing(query.compiled, schema)
    return absent


def _missing(query: CompiledQuery, schema: pa.Schema) -> set[str]:
    try:
        query.with_schema(schema)
    except QueryError as error:
        told = [one.message for one in error.diagnostics if one.code == "E201"]
        return {match[1] for message in told if (match := _NO_ATTRIBUTE.search(message))}
    return set()


def _alerts(report: Reported, tick_ns: int) -> Iterator[Alert]:
    rule = report.query.rule
    shown = np.flatnonzero(report.fates == SHOWN)
    rows = report.rows.take(shown).to_pylist()
    times = [None] * len(rows) if report.times is None else report.times[shown].tolist()
    for row, at in zip(rows, times, strict=True):
        row.pop("match_id", None)
        at_ns = None if at is None else at * tick_ns
        yield Alert(
            rule.name, report.query.values, rule.owner, rule.tags, rule.severity, at_ns, row
        )
