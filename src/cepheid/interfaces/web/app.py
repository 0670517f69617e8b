"""The application: the page, and the endpoints that it calls (docs/workbench.md lists them)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cepheid.errors import CepheidError, visible
from cepheid.interfaces.web import live_pages, query_pages, run_pages, timeline_pages
from cepheid.interfaces.web.answers import Bench, json
from cepheid.interfaces.web.guard import Guard
from cepheid.interfaces.web.runs import Runs
from cepheid.interfaces.web.settings import Settings

STATIC = Path(__file__).parent / "static"


def make_app(settings: Settings, *, token: str, port: int) -> Starlette:
    """Make the application of a workbench."""
    bench = Bench(settings, Runs(settings.functions))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        bench.runs.workers.prepare()
        yield
        await bench.runs.close()

    pages = (query_pages, run_pages, timeline_pages, live_pages)
    app = Starlette(
        routes=[
            Route("/", _page),
            Mount("/static", StaticFiles(directory=STATIC)),
            *(route for module in pages for route in module.ROUTES),
        ],
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers={HTTPException: _fault, CepheidError: _refused, Exception: _broken},
        lifespan=lifespan,
    )
    app.state.bench = bench
    return app


async def _page(request: Request) -> HTMLResponse:
    """Send the page; styles that the editor makes carry the nonce of this answer."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(
        text.replace("{{nonce}}", request.state.nonce), headers={"Cache-Control": "no-store"}
    )


async def _fault(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "Starlette chooses by type"
    return json({"message": error.detail}, error.status_code)


async def _refused(_: Request, error: Exception) -> Response:
    return json({"message": visible(str(error), keep="\n")}, 422)


async def _broken(_: Request, error: Exception) -> Response:
    return json({"message": f"the workbench failed: {type(error).__name__}"}, 500)
