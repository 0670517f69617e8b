"""The parts that all endpoints share: the workbench itself, and answers as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cepheid.interfaces.data_sets import DataSet
from cepheid.interfaces.reading import schema_of
from cepheid.interfaces.web.runs import Run, Runs
from cepheid.interfaces.web.settings import Settings


class Bench:
    """A workbench: what it serves, its runs, and the columns of data sets once they are read."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self.settings, self.runs = settings, runs
        self.schemas: dict[str, pa.Schema] = {}

    @staticmethod
    def of(request: Request) -> Bench:
        """Find the workbench that a request is for."""
        bench: Bench = request.app.state.bench
        return bench

    def data(self, name: str | None) -> DataSet:
        """Find a data set by its name; 404 if there is none."""
        found = self.settings.sets.get(name or "")
        if found is None:
            raise HTTPException(404, "there is no such data set")
        return found

    async def schema(self, name: str | None) -> pa.Schema | None:
        """Read the columns of a data set, once."""
        if name is None or name not in self.settings.sets:
            return None
        if name not in self.schemas:
            data = self.settings.sets[name]
            columns = self.settings.columns
            self.schemas[name] = await run_in_threadpool(schema_of, data, columns)
        return self.schemas[name]

    def run(self, request: Request) -> Run:
        """Find the run that an address names; 404 if there is none."""
        found = self.runs.find(request.path_params["id"])
        if found is None:
            raise HTTPException(404, "there is no such run")
        return found


def json(value: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    data = msgspec.json.encode(value, enc_hook=str)
    return Response(data, status, media_type="application/json")
