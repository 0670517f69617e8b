"""The bodies of requests: checked when they are read, so that no other shape goes further."""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cepheid.decoding import from_json

TEXT_MAX = 200_000
"""Characters of a query."""

Body = TypeVar("Body", bound="Asked")


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and the name of the data set that it is about."""

    text: str = ""
    data: str | None = None


class AskedAt(Asked, frozen=True, kw_only=True):
    """A place in a text, as JavaScript counts."""

    offset: int = 0


class AskedRun(Asked, frozen=True, kw_only=True):
    """A run: rows, or why there are few."""

    why: bool = False


class AskedLive(Asked, frozen=True, kw_only=True):
    """A replay: one query, or all rules; ``state`` is the id of one that stopped."""

    rules: bool = False
    speed: float = 0.0
    watermark: str = "0 seconds"
    follow: bool = False
    start: Literal["earliest", "latest"] = "earliest"
    state: str = ""


class AskedTimeline(Asked, frozen=True, kw_only=True):
    """A timeline of a data set, with lanes by a column, and the run whose rows are spans."""

    key: str | None = None
    run: str = ""


class AskedSave(Asked, frozen=True, kw_only=True):
    """A query to save, by its name."""

    name: str


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Read the body of a request; 415, 400 or 413 if it is something else."""
    # A form of another page cannot send JSON.
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "the body must be JSON")
    try:
        made = from_json(await request.body(), kind)
    except msgspec.MsgspecError as error:
        raise HTTPException(400, f"the body does not fit: {error}") from None
    if len(made.text) > TEXT_MAX:
        raise HTTPException(413, "the query is too long")
    return made
