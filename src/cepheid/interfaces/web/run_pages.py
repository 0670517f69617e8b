"""Endpoints of runs: start, follow, cancel, and read the rows, the chart and single matches."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.web.answers import Bench, json
from cepheid.interfaces.web.bodies import AskedRun, read_body
from cepheid.interfaces.web.chart_view import chart_view
from cepheid.interfaces.web.requests import MatchTask, RunTask, WhyTask
from cepheid.interfaces.web.run_task import RESULT, compiled, is_statement
from cepheid.interfaces.web.runs import Run
from cepheid.interfaces.web.spans import has_matches
from cepheid.pictures.shown_times import ShownTimes
from cepheid.pictures.sweeps import Swept, swept_of

PAGE_ROWS_MAX = 1_000
WAIT_S = 10.0
"""A request waits so long for news of a run."""


async def start(request: Request) -> Response:
    """Start a run, and answer with its id."""
    bench = Bench.of(request)
    body = await read_body(request, AskedRun)
    settings, data = bench.settings, bench.data(body.data)
    kind = WhyTask if body.why else RunTask
    run = bench.runs.start(
        lambda folder: kind(
            folder=folder,
            data=data,
            columns=settings.columns,
            limits=settings.limits,
            text=body.text,
            sets=settings.sets,
        )
    )
    return json(run.told(), 202)


async def follow(request: Request) -> Response:
    """Tell how far a run is; with ``wait`` after it ended, or after some seconds."""
    run = Bench.of(request).run(request)
    wait = request.query_params.get("wait")
    if wait is not None and run.is_running:
        await run.finished(min(WAIT_S, number_of(wait, 0) / 1000))
    return json(run.told())


async def cancel(request: Request) -> Response:
    """Stop a run at once."""
    run = Bench.of(request).run(request)
    await run.cancel()
    return json(run.told())


def number_of(text: str | None, default: int) -> int:
    """Read a whole number that is not negative; 400 if it is none."""
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise HTTPException(400, "a number is missing")
    return int(text)


def done_run(request: Request) -> Run:
    """Find a run that has rows; 409 if it has none."""
    run = Bench.of(request).run(request)
    if run.status != "done" or not (run.folder / RESULT).exists():
        raise HTTPException(409, "this run has no rows")
    return run


async def rows(request: Request) -> Response:
    """Read a page of rows."""
    run = done_run(request)
    columns = Bench.of(request).settings.columns
    first = number_of(request.query_params.get("offset"), 0)
    most = min(number_of(request.query_params.get("limit"), 100), PAGE_ROWS_MAX)
    return json(await run_in_threadpool(_page, run.rows(), columns, first, most))


def _page(table: pa.Table, columns: Any, first: int, most: int) -> dict[str, Any]:
    shown = ShownTimes(columns.time, columns.time_unit).of(table.slice(first, most))
    return {
        "columns": [{"name": f.name, "type": str(f.type)[:80]} for f in table.schema],
        # Names of columns may be the same, so a row is a list.
        "rows": [
            [plain_value(value) for value in values]
            for values in zip(*(column.to_pylist() for column in shown.columns), strict=True)
        ],
        "total": len(table),
    }


async def chart(request: Request) -> Response:
    """Read the numbers of a result as a chart."""
    run = done_run(request)
    columns = Bench.of(request).settings.columns
    times = ShownTimes(columns.time, columns.time_unit)
    return json(await run_in_threadpool(_chart, run, times))


def _chart(run: Run, times: ShownTimes) -> dict[str, Any]:
    task = run.task
    swept: tuple[Swept, ...] = ()
    if isinstance(task, RunTask) and not is_statement(task.text):
        swept = swept_of(compiled(task.text, task.columns).plan)
    return chart_view(run.rows(), times, swept)


async def export(request: Request) -> Response:
    """Send all rows as CSV or Parquet."""
    run = done_run(request)
    kind = request.query_params.get("format", "csv")
    if kind not in ("csv", "parquet"):
        raise HTTPException(400, "the format is csv or parquet")
    data = await run_in_threadpool(_encoded, run.rows(), kind)
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/vnd.apache.parquet"
    named = {"Content-Disposition": f'attachment; filename="cepheid-{run.id}.{kind}"'}
    return Response(data, media_type=media, headers=named)


def _encoded(table: pa.Table, kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink)
    else:
        for place, field in enumerate(table.schema):
            if pa.types.is_nested(field.type):
                texts = [
                    msgspec.json.encode(value, enc_hook=str).decode()
                    for value in table.column(place).to_pylist()
                ]
                table = table.set_column(place, field.name, pa.array(texts, pa.string()))
        csv.write_csv(table, sink)
    return sink.getvalue()


async def match(request: Request) -> Response:
    """Explain a match of a run: its events, those between them, and why each is what it is."""
    bench, run = Bench.of(request), done_run(request)
    task = run.task
    row = number_of(request.path_params["row"], 0)
    if not isinstance(task, RunTask) or not has_matches(run.rows()):
        raise HTTPException(409, "the rows of this run are no matches")
    if row >= len(run.rows()):
        raise HTTPException(404, "there is no such row")
    asked = bench.runs.start(
        lambda folder: MatchTask(
            folder=folder,
            data=task.data,
            columns=task.columns,
            limits=task.limits,
            text=task.text,
            result=str(run.folder / RESULT),
            row=row,
        )
    )
    await asked.finished(task.limits.seconds)
    return json(asked.told())


ROUTES = [
    Route("/api/runs", start, methods=["POST"]),
    Route("/api/runs/{id}", follow),
    Route("/api/runs/{id}", cancel, methods=["DELETE"]),
    Route("/api/runs/{id}/rows", rows),
    Route("/api/runs/{id}/chart", chart),
    Route("/api/runs/{id}/export", export),
    Route("/api/runs/{id}/matches/{row}", match),
]
