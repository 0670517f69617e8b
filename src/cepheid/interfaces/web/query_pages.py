"""Endpoints about texts: what there is, mistakes, completion, hover, layout and the plan."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import cepheid
from cepheid import language_service
from cepheid.errors import CepheidError, render_diagnostic, visible
from cepheid.interfaces.data_sets import Columns
from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.reading import count_of, sample_of
from cepheid.interfaces.web.answers import Bench, json
from cepheid.interfaces.web.bodies import Asked, AskedAt, AskedSave, read_body
from cepheid.interfaces.web.examples import examples_for
from cepheid.interfaces.web.plan_view import plan_view
from cepheid.interfaces.web.run_task import compiled, is_statement
from cepheid.language_service.places import from_utf16, to_utf16

SAMPLE_ROWS = 50
NAME = re.compile(r"[\w-]{1,64}")


async def session(request: Request) -> Response:
    """Tell what there is: data sets, queries, limits, and whether files may be written."""
    settings = Bench.of(request).settings
    return json(
        {
            "version": cepheid.__version__,
            "sets": [{"name": one.name, "kind": one.kind} for one in settings.sets.values()],
            "queries": [{"name": name, "text": text} for name, text in settings.queries.items()],
            "columns": settings.columns,
            "limits": settings.limits,
            "write": settings.write and settings.folder is not None,
        }
    )


async def data_set(request: Request) -> Response:
    """Describe a data set: its columns, its size, its first events, and examples of queries."""
    bench = Bench.of(request)
    name = request.path_params["name"]
    data, columns = bench.data(name), bench.settings.columns
    schema = await bench.schema(name)
    assert schema is not None, "the data set is there"
    count = await run_in_threadpool(count_of, data, columns)
    sample = await run_in_threadpool(sample_of, data, columns, SAMPLE_ROWS)
    return json(
        {
            "name": name,
            "path": visible(data.place),
            "columns": [{"name": f.name, "type": str(f.type)} for f in schema],
            "events": count,
            "sample": [plain_value(row) for row in sample.to_pylist()],
            "examples": examples_for(sample, columns),
        }
    )


async def check(request: Request) -> Response:
    """Find the mistakes of a text, each with edits that repair it; or describe its plan."""
    bench = Bench.of(request)
    body = await read_body(request, Asked)
    schema = await _schema(bench, body.data)
    return json(await run_in_threadpool(_checked, body.text, schema, bench.settings.columns))


async def _schema(bench: Bench, name: str | None) -> Any:
    try:
        return await bench.schema(name)
    except CepheidError:
        return None  # A run will say so.


def _checked(text: str, schema: Any, columns: Columns) -> dict[str, Any]:
    """Find mistakes; a text without errors has a plan."""
    if not text.strip():
        return {"findings": [], "plan": None}
    options = msgspec.structs.asdict(columns) | {"type": columns.type or None}
    found = language_service.diagnostics(text, schema, **options)
    findings = [_finding(one, text) for one in found]
    plan = None
    if not any(one.severity == "error" for one in found) and not is_statement(text):
        try:
            plan = plan_view(compiled(text, columns, schema))
        except CepheidError:
            plan = None  # The findings have it.
    return {"findings": findings, "plan": plan}


def _finding(one: language_service.Finding, text: str) -> dict[str, Any]:
    diagnostic = cepheid.errors.Diagnostic(
        one.code, one.message, one.span, one.label, one.notes, one.helps
    )
    return {
        "code": one.code,
        "severity": one.severity.value,
        "message": visible(one.message),
        "label": visible(one.label),
        "helps": [visible(help_) for help_ in one.helps],
        "block": visible(render_diagnostic(diagnostic, text), keep="\n"),
        "span": [to_utf16(text, one.span.start), to_utf16(text, one.span.end)],
        "fixes": [
            {
                "title": visible(fix.title),
                "edits": [
                    {
                        "from": to_utf16(text, edit.span.start),
                        "to": to_utf16(text, edit.span.end),
                        "text": edit.text,
                    }
                    for edit in fix.edits
                ],
            }
            for fix in one.fixes
        ],
    }


async def complete(request: Request) -> Response:
    """List what may come next at a place."""
    bench = Bench.of(request)
    body = await read_body(request, AskedAt)
    schema = await _schema(bench, body.data)
    place = from_utf16(body.text, body.offset)
    values = await run_in_threadpool(_values, bench, body.data)
    found = await run_in_threadpool(_completions, body.text, place, schema, values)
    return json(
        [
            {
                "label": visible(one.label),
                "insert": one.insert,
                "kind": one.kind.value,
                "detail": visible(one.detail),
                "from": to_utf16(body.text, one.span.start),
                "to": to_utf16(body.text, one.span.end),
            }
            for one in found
        ]
    )


def _completions(text: str, place: int, schema: Any, values: Any) -> Any:
    return language_service.complete(text, place, schema, values=values)


def _values(bench: Bench, name: str | None) -> dict[str, list[Any]]:
    """Collect values of the first events, for completion."""
    if name is None or name not in bench.settings.sets:
        return {}
    table = sample_of(bench.data(name), bench.settings.columns, 2_000)
    return {
        column: [value for value in dict.fromkeys(table[column].to_pylist()) if value is not None][
            :50
        ]
        for column in table.column_names
        if str(table.schema.field(column).type) in ("string", "large_string")
    }


async def hover(request: Request) -> Response:
    """Say what the word at a place means."""
    body = await read_body(request, AskedAt)
    found = language_service.hover(body.text, from_utf16(body.text, body.offset))
    if found is None:
        return json(None)
    span = [to_utf16(body.text, found.span.start), to_utf16(body.text, found.span.end)]
    told = {"title": found.title, "text": found.text, "section": found.section}
    return json({name: visible(text) for name, text in told.items()} | {"span": span})


async def layout(request: Request) -> Response:
    """Format a text; null if it cannot be read."""
    body = await read_body(request, Asked)
    return json({"text": language_service.format_text(body.text)})


async def save(request: Request) -> Response:
    """Write a query to the folder of rules; only with ``--write``."""
    settings = Bench.of(request).settings
    body = await read_body(request, AskedSave)
    if not settings.write or settings.folder is None:
        raise HTTPException(403, "this workbench writes no files: start it with --write")
    if not NAME.fullmatch(body.name):
        raise HTTPException(400, "a name has letters, digits, _ and - only")
    path = settings.folder / f"{body.name}.cq"
    path.write_text(body.text.rstrip() + "\n", encoding="utf-8")
    settings.queries[body.name] = body.text
    return json({"name": body.name})


ROUTES = [
    Route("/api/session", session),
    Route("/api/data/{name:path}", data_set),
    Route("/api/check", check, methods=["POST"]),
    Route("/api/complete", complete, methods=["POST"]),
    Route("/api/hover", hover, methods=["POST"]),
    Route("/api/format", layout, methods=["POST"]),
    Route("/api/save", save, methods=["POST"]),
]
