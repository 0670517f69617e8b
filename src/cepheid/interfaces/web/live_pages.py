"""Endpoints of live queries: start a replay, watch it by server-sent events, stop it, go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cepheid.interfaces.web.answers import Bench, json
from cepheid.interfaces.web.bodies import AskedLive, read_body
from cepheid.interfaces.web.live_sources import PLACE
from cepheid.interfaces.web.requests import LiveTask
from cepheid.interfaces.web.runs import Run

LIVE_MAX = 4
"""Live queries that run at the same time."""
STOP_S = 20.0
"""A query has so long to write its state."""


async def start(request: Request) -> Response:
    """Feed a data set to a query or all rules; or go on with that."""
    bench = Bench.of(request)
    body = await read_body(request, AskedLive)
    settings, data = bench.settings, bench.data(body.data)
    queries = dict(settings.queries) if body.rules else {"query": body.text}
    if not queries:
        raise HTTPException(400, "there are no rules: name a folder of them")
    if not 0 <= body.speed < 1e9:
        raise HTTPException(400, "the speed is a number from 0 on")
    if bench.runs.count_live() >= LIVE_MAX:
        raise HTTPException(429, f"{LIVE_MAX} live queries run already: stop one of them")
    state = ""
    if body.state:
        before = bench.runs.find(body.state)
        if before is None or not (before.folder / PLACE).exists():
            raise HTTPException(409, "there is no state to go on from")
        if before.task.data != data:
            raise HTTPException(409, "the state is that of another data set: start anew")
        state = str(before.folder)
    run = bench.runs.start(
        lambda folder: LiveTask(
            folder=folder,
            data=data,
            columns=settings.columns,
            limits=settings.limits,
            queries=queries,
            speed=body.speed,
            watermark=body.watermark,
            follow=body.follow,
            start=body.start,
            state=state,
        )
    )
    return json(run.told(), 202)


async def watch(request: Request) -> Response:
    """Send what a replay tells, as server-sent events."""
    run = Bench.of(request).run(request)
    return StreamingResponse(_events(run), media_type="text/event-stream")


async def _events(run: Run) -> AsyncIterator[bytes]:
    seen = 0
    while True:
        news = [one for one in run.messages if one["number"] >= seen]
        for message in news:
            seen = message["number"] + 1
            yield b"data: " + msgspec.json.encode(message, enc_hook=str) + b"\n\n"
        if not run.is_running:
            yield b"event: end\ndata: " + msgspec.json.encode(run.told(), enc_hook=str) + b"\n\n"
            return
        try:
            async with asyncio.timeout(5.0), run.changed:
                await run.changed.wait()
        except TimeoutError:
            yield b": still here\n\n"


async def stop(request: Request) -> Response:
    """Let a replay write its state and end."""
    run = Bench.of(request).run(request)
    await run.stop()
    await run.finished(STOP_S)
    return json(run.told())


ROUTES = [
    Route("/api/live", start, methods=["POST"]),
    Route("/api/live/{id}/events", watch),
    Route("/api/live/{id}/stop", stop, methods=["POST"]),
]
