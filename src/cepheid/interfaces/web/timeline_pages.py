"""Endpoints of timelines: build one, its tiles, and the spans of a run's rows."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cepheid.interfaces.web.answers import Bench, json
from cepheid.interfaces.web.bodies import AskedTimeline, read_body
from cepheid.interfaces.web.requests import TimelineTask
from cepheid.interfaces.web.run_pages import number_of
from cepheid.interfaces.web.run_task import RESULT
from cepheid.interfaces.web.runs import Run
from cepheid.interfaces.web.spans import spans_of
from cepheid.interfaces.web.tiles import LEVEL_MAX, Tiles

TILES = "tiles"


async def start(request: Request) -> Response:
    """Sort the events of a data set for a timeline, and choose lanes that have spans."""
    bench = Bench.of(request)
    body = await read_body(request, AskedTimeline)
    settings, data = bench.settings, bench.data(body.data)
    made = bench.runs.start(
        lambda folder: TimelineTask(
            folder=folder,
            data=data,
            columns=settings.columns,
            limits=settings.limits,
            key=body.key,
        )
    )
    await made.finished(settings.limits.seconds)
    if made.status != "done":
        return json(made.told())
    spans = await run_in_threadpool(_spans, bench, body)
    tiles = await run_in_threadpool(Tiles, made.folder, made.answer)
    tiles.choose([span[2] for span in spans["spans"]])
    made.views[TILES] = tiles
    return json(made.told() | {"timeline": tiles.about(), "spans": spans})


def _spans(bench: Bench, body: AskedTimeline) -> dict[str, Any]:
    run = bench.runs.find(body.run)
    if run is None or run.status != "done" or not (run.folder / RESULT).exists():
        return {"spans": [], "total": 0, "kind": ""}
    return spans_of(run.rows(), bench.settings.columns.time, body.key)


async def tile(request: Request) -> Response:
    """Send a tile, as bytes."""
    made: Run = Bench.of(request).run(request)
    tiles: Tiles | None = made.views.get(TILES)
    level = number_of(request.path_params["level"], 0)
    place = number_of(request.path_params["place"], 0)
    if tiles is None or level > LEVEL_MAX or place >= 1 << level:
        raise HTTPException(404, "there is no such tile")
    data = await run_in_threadpool(tiles.tile, level, place)
    return Response(data, media_type="application/octet-stream")


ROUTES = [
    Route("/api/timelines", start, methods=["POST"]),
    Route("/api/timelines/{id}/{level}/{place}", tile),
]
