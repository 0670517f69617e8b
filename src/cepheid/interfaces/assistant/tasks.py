"""The tasks of assistants: each takes a query or a data set, and returns plain JSON.

A task that reads events runs in a process of its own (``worker``), which can be stopped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa

from cepheid import language_service, memory_limits
from cepheid.api import CompiledQuery, query
from cepheid.discovery.discover import discover
from cepheid.errors import CepheidError, DataError, Diagnostic, visible
from cepheid.interfaces.data_sets import Columns, DataSet
from cepheid.interfaces.plain_values import plain_text, plain_value
from cepheid.interfaces.reading import events_of, sample_of, schema_of
from cepheid.interfaces.sampled_values import ROWS_MAX, frequent_values
from cepheid.language_service.answers import apply_edits


class Limits(msgspec.Struct, frozen=True):
    """The limits of a task: rows and bytes of its answer, and seconds that it may take."""

    rows: int = 200
    bytes: int = 1 << 18
    seconds: int = 60


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A request of an assistant; ``streams`` are the data sets of a join by name."""

    tool: str
    text: str = ""
    data: DataSet | None = None
    streams: dict[str, DataSet] = {}
    columns: Columns = Columns()
    limits: Limits = Limits()
    options: dict[str, Any] = {}


def do(task: Task) -> dict[str, Any]:
    """Do a task; mistakes are a part of the answer."""
    try:
        with _notices() as notices:
            answer = TOOLS[task.tool](task)
    except CepheidError as error:
        return failed(error)
    except Exception as error:  # a defect, which an assistant may find a way around
        defect = visible(f"{type(error).__name__}: {error}".splitlines()[0])
        return {"ok": False, "text": f"the task failed, by a defect: {defect}", "diagnostics": []}
    told = [plain_text(one) for one in notices]
    return {"ok": True, **answer, **({"notices": told} if told else {})}


def failed(error: CepheidError) -> dict[str, Any]:
    """Describe an error: its text with carets, and each mistake."""
    found = [
        {
            "code": one.code,
            "message": visible(one.message),
            "helps": [visible(h) for h in one.helps],
        }
        for one in error.diagnostics
    ]
    return {"ok": False, "diagnostics": found, "text": visible(str(error), keep="\n")}


def check(text: str, schema: object, columns: Columns) -> dict[str, Any]:
    """Find the mistakes of a query, and what the text would be after each fix."""
    found = language_service.diagnostics(
        text, schema, time=columns.time, type=columns.type,
        time_unit=columns.time_unit, time_format=columns.time_format,
    )  # fmt: skip
    findings = []
    for one in found:
        line = text.count("\n", 0, one.span.start) + 1
        fixes = [
            {"title": visible(fix.title), "text": apply_edits(text, fix.edits)} for fix in one.fixes
        ]
        findings.append(
            {
                "code": one.code,
                "severity": one.severity.value,
                "message": visible(one.message),
                "line": line,
                "column": one.span.start - (text.rfind("\n", 0, one.span.start) + 1) + 1,
                "helps": [visible(help_) for help_ in one.helps],
                "fixes": fixes,
            }
        )
    # What an editor only tells of, because `cepheid.sql` runs it, no tool runs.
    stops = (language_service.Severity.ERROR, language_service.Severity.INFORMATION)
    wrong = any(one.severity in stops for one in found)
    return {"ok": not wrong, "findings": findings}


def _check(task: Task) -> dict[str, Any]:
    if not task.text.strip():
        # Editors begin with an empty text, and have nothing to say of it.
        _compiled(task)
    schema = None if task.data is None else schema_of(task.data, task.columns)
    return check(task.text, schema, task.columns)


def _explain(task: Task) -> dict[str, Any]:
    compiled = _compiled(task)
    schema = None if task.data is None else schema_of(task.data, task.columns)
    return {"plan": visible(compiled.explain(schema=schema), keep="\n")}


def _schema_told(task: Task) -> dict[str, Any]:
    sample = _first_events(task, ROWS_MAX)
    values = frequent_values(sample)
    columns = [
        {
            "name": plain_text(field.name),
            "type": plain_text(str(field.type)),
            "frequent_values": plain_value(list(values.get(field.name, ()))[:20]),
        }
        for field in sample.schema
    ]
    return {"columns": columns, "looked_at": len(sample)}


def _sample(task: Task) -> dict[str, Any]:
    return _rows(_first_events(task, task.limits.rows), task.limits)


def _run(task: Task) -> dict[str, Any]:
    compiled = _compiled(task)
    begun = time.monotonic()
    total: dict[str, int] = {}
    if compiled.plan.lists_matches:
        table, more = _first_rows(compiled, _events(task, compiled), task.limits.rows)
    else:
        with memory_limits.limits(bytes=1 << 28):
            table = compiled.run(_events(task, compiled))
        total, more = {"total_rows": len(table)}, len(table) > task.limits.rows
        table = table.slice(0, task.limits.rows)
    answer = _rows(table, task.limits)
    return {**answer, **total, "more": more or answer["more"], "seconds": _since(begun)}


def _why_not(task: Task) -> dict[str, Any]:
    compiled = _compiled(task)
    found = compiled.why_not(_events(task, compiled))
    return {"text": visible(str(found), keep="\n"), "numbers": plain_value(found.to_dict())}


def _discover(task: Task) -> dict[str, Any]:
    columns = task.columns
    found = discover(
        _events(task), time=columns.time, type=columns.type, time_unit=columns.time_unit,
        time_format=columns.time_format, **task.options,
    )  # fmt: skip
    rules = _rows(found.table.slice(0, task.limits.rows), task.limits)
    return {**rules, "search": [visible(line) for line in found.search.lines()]}


TOOLS: Mapping[str, Callable[[Task], dict[str, Any]]] = {
    "check": _check,
    "explain": _explain,
    "schema": _schema_told,
    "sample": _sample,
    "run": _run,
    "why_not": _why_not,
    "discover": _discover,
}


def _compiled(task: Task) -> CompiledQuery:
    columns = task.columns
    return query(
        task.text, time=columns.time, type=columns.type, time_unit=columns.time_unit,
        time_format=columns.time_format,
    )  # fmt: skip


def _events(task: Task, compiled: CompiledQuery | None = None) -> Any:
    """Open the events as queries take them; one that joins nothing reads its only stream."""
    if compiled is not None and not compiled.plan.streams and len(task.streams) == 1:
        (only,) = task.streams.values()
        return events_of(only, task.columns)
    if task.streams:
        return {name: events_of(data, task.columns) for name, data in task.streams.items()}
    if task.data is None:
        message = "the task names no data set"
        raise DataError([Diagnostic("E501", message, helps=("`data_sets` lists them",))])
    return events_of(task.data, task.columns)


def _first_events(task: Task, rows: int) -> pa.Table:
    """Read the first events of a data set."""
    assert task.data is not None, "the server asks for a data set"
    return sample_of(task.data, task.columns, rows)


def _first_rows(compiled: CompiledQuery, events: Any, rows: int) -> tuple[pa.Table, bool]:
    """List the first matches, and stop."""
    found: list[pa.Table] = []
    have = 0
    reader = compiled.matches(events)
    for batch in reader:
        found.append(pa.Table.from_batches([batch]).slice(0, rows - have))
        have += len(batch)
        if have > rows:
            break
    return (pa.concat_tables(found) if found else reader.schema.empty_table()), have > rows


def _rows(table: pa.Table, limits: Limits) -> dict[str, Any]:
    """Convert the rows of a table to JSON, as many as fit."""
    rows: list[Any] = []
    size = 0
    for place in range(len(table)):
        row = plain_value(table.slice(place, 1).to_pylist()[0])
        size += len(msgspec.json.encode(row))
        if size > limits.bytes:
            break
        rows.append(row)
    columns = [plain_text(name) for name in table.column_names]
    return {"columns": columns, "rows": rows, "more": len(rows) < len(table)}


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)


@contextmanager
def _notices() -> Iterator[list[str]]:
    """Collect the warnings of a task."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += dict.fromkeys(str(one.message) for one in caught)
