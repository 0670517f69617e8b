"""``cepheid detect``: rules and files of events in, alerts out."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from cepheid.api import CompiledQuery
from cepheid.arrays.json_events import JsonEvents
from cepheid.errors import QueryError
from cepheid.events.files import (
    IN_ONE_PIECE,
    content_of,
    find_files,
    read_all,
    schema_of_file,
)
from cepheid.events.schema import Column, EventSchema, ValueKind, read_schema
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.tree import attributes_in
from cepheid.interfaces.alert_formats import Alert
from cepheid.interfaces.backtest import NoRuleLeftError, Stretch, backtest
from cepheid.interfaces.logs import COLUMN, UNNAMED, Inputs
from cepheid.interfaces.rule_queries import Ready, Refusals, RuleQuery
from cepheid.jobs.sources import EventSource, source_of
from cepheid.kinds.workload.filters import is_filter
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan

WHOLE_BYTES_MAX = 256 << 20
"""The size of files that are read as one table."""

_NO_ATTRIBUTE = re.compile(r"has no attribute `([^`]+)`")


class Detected(NamedTuple):
    """The alerts of all rules in the order of their times, and what was read.

    ``absent`` are the fields that rules name and no event has, for each group of logs, and
    ``notices`` tell of lines that were left out.
    """

    alerts: list[Alert]
    absent: dict[tuple[str, ...], list[str]]
    events: int
    seconds: float
    notices: tuple[str, ...] = ()


def detect(ready: Ready, inputs: Inputs, refusals: Refusals) -> Detected:
    """Run rules over files, those that read the same logs in one pass.

    A field that rules name and no event has is NULL.

    Raises
    ------
    DataError
        If the events are at fault.
    """
    alerts: list[Alert] = []
    absent: dict[tuple[str, ...], list[str]] = {}
    events, seconds = 0, 0.0
    notices: list[str] = []
    for logs, rules in _by_logs(ready).items():
        source, missing = read_events(rules, {log: inputs[log] for log in logs})
        try:
            found = backtest(rules, Stretch(source), refusals, lambda _: None)
        except NoRuleLeftError:
            continue  # The rules of other logs run; at the end the command tells of these.
        alerts += found.shown_alerts()
        absent |= {logs: missing} if missing else {}
        events += found.done.events
        seconds += found.done.seconds
        if isinstance(source.events, JsonEvents):
            notices += source.events.notices()
    alerts.sort(key=lambda one: (one.at_ns is None, one.at_ns or 0))
    return Detected(alerts, absent, events, seconds, tuple(dict.fromkeys(notices)))


def _by_logs(ready: Ready) -> dict[tuple[str, ...], Ready]:
    """Group rules by what they read; of inputs without names all rules read all."""
    groups: dict[tuple[str, ...], dict[str, RuleQuery]] = {}
    for name, query in ready.queries.items():
        logs = tuple(sorted(query.logs)) or (UNNAMED,)
        groups.setdefault(logs, {})[name] = query
    return {logs: ready._replace(queries=queries) for logs, queries in groups.items()}


def read_events(ready: Ready, inputs: Inputs) -> tuple[EventSource, list[str]]:
    """Read the files of logs, with columns of NULL for the fields that only rules name.

    Few events are read once, as one table. Of more, each file is opened first to know its columns,
    and the events are read file by file when the rules run. Several logs are read as one table,
    because their events stand side by side in time.
    """
    times = ready.workload.times
    paths = [file for place in chain(*inputs.values()) for file in find_files(place)]
    if len(inputs) == 1 and all(content_of(file.name) == "json" for file in paths):
        events = JsonEvents(paths, times)
        absent = sorted(absent_columns(ready, events.schema))
        events.with_absent(absent)
        return EventSource(events.schema, events, times=times), absent
    if len(inputs) == 1 and _is_large(paths):
        schemas = [schema_of_file(file, times) for file in paths]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        absent = sorted(absent_columns(ready, schema))
        known = pa.schema([*schema, *(pa.field(name, pa.null()) for name in absent)])
        return EventSource(known, paths, times=times, fitted=True), absent
    whole = read_together(inputs, times, named=len(inputs) > 1)
    absent = sorted(absent_columns(ready, whole.schema))
    for name in absent:
        whole = whole.append_column(name, pa.nulls(len(whole)))
    return source_of(whole, times), absent


def _is_large(paths: list[Path]) -> bool:
    """Check for files that are better read one after another, twice: for columns, and for events.

    A single file of a format that is read in one piece would only be read twice.
    """
    if len(paths) == 1 and content_of(paths[0].name) in IN_ONE_PIECE:
        return False
    return sum(file.stat().st_size for file in paths) > WHOLE_BYTES_MAX


def read_together(inputs: Inputs, times: TextTimes, *, named: bool) -> pa.Table:
    """Read the files of logs as one table, if asked for with the name of each event's log."""
    files = [
        (log, file)
        for log, places in inputs.items()
        for place in places
        for file in find_files(place)
    ]
    place = 0

    def opened(number: int) -> None:
        nonlocal place
        place = number

    tables = []
    for table in read_all([file for _, file in files], None, times, opened):
        log = pa.repeat(files[place][0], len(table))
        tables.append(table.append_column(COLUMN, log) if named else table)
    return pa.concat_tables(tables, promote_options="permissive")


def absent_columns(ready: Ready, schema: pa.Schema) -> set[str]:
    """Find the columns that rules name and events lack: those that planning does not find."""
    absent: set[str] = set()
    columns = read_schema(schema)
    assert columns is not None, "a schema has columns"
    for query in ready.queries.values():
        missing = _missing(query.compiled, columns)
        while missing - absent:
            absent |= missing
            added = (Column(name, ValueKind.UNKNOWN) for name in sorted(missing))
            columns = EventSchema((*columns.columns, *added))
            missing = _missing(query.compiled, columns)
    return absent


def _missing(query: CompiledQuery, schema: EventSchema) -> set[str]:
    named = _plain_names(query)
    if named is not None:
        return {name for name in named if schema.kind(name) is None}
    try:
        query.with_schema(schema)
    except QueryError as error:
        told = [one.message for one in error.diagnostics if one.code == "E201"]
        return {match[1] for message in told if (match := _NO_ATTRIBUTE.search(message))}
    return set()


def _plain_names(query: CompiledQuery) -> set[str] | None:
    """Collect the columns that a filter names; None if planning must tell what names stand for."""
    select = query.tree
    if not isinstance(select, tree.SelectQuery) or not is_filter(query.plan):
        return None
    if any(isinstance(item, tree.ReturnItem) for item in select.items):
        return None
    assert isinstance(query.plan, SelectPlan), "a filter is a SELECT"
    where = query.plan.select.where
    # A plan has the alias of its stream before every column, and fields of structures as one name.
    return set() if where is None else attributes_in(where)
