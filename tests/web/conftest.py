"""One workbench for all tests of a module, served by a real server in another thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvicorn
from pyarrow import parquet

from cepheid.interfaces.data_sets import Columns
from cepheid.interfaces.web.app import make_app
from cepheid.interfaces.web.settings import Limits, Settings, find_settings

TOKEN = "a-token-of-tests"


class Bench:
    """A workbench that answers on a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"

    def send(
        self,
        path: str,
        body: Any = None,
        method: str | None = None,
        *,
        host: str | None = None,
        token: str | None = TOKEN,
        **headers: str,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {"Host": host or f"127.0.0.1:{self.port}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection.request(method or ("GET" if data is None else "POST"), path, data, sent)
        answer = connection.getresponse()
        found = answer.status, answer.headers, answer.read()
        connection.close()
        return found

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        status, _, data = self.send(path, body, method)
        assert status < 300, (status, data)
        return json.loads(data)

    def run(self, text: str, data: str = "events", **more: Any) -> Any:
        told = self.ask("/api/runs", {"text": text, "data": data, **more})
        while told["status"] == "running":
            told = self.ask(f"/api/runs/{told['id']}?wait=5000")
        return told


def write_events(folder: Path, count: int = 200) -> Path:
    """Write events of three symbols: a price that rises and falls, and values that are hostile."""
    hostile = '<img src=x onerror="alert(1)">\x1b[2J'
    table = pa.table(
        {
            "ts": pa.array([1_760_000_000_000_000 + n * 1_000_000 for n in range(count)]).cast(
                pa.timestamp("us", "UTC")
            ),
            "type": ["buy" if n % 2 else "view" for n in range(count)],
            "symbol": [("AAA", "BBB", hostile)[n % 3] for n in range(count)],
            "price": [float((n * 7) % 11) for n in range(count)],
        }
    )
    path = folder / "events.parquet"
    parquet.write_table(table, path)
    return path


def settings_of(place: Path, **more: Any) -> Settings:
    return find_settings(
        [str(place)], Columns(), more.pop("limits", Limits(seconds=120)), write=False, **more
    )


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[Bench]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        make_app(settings, token=TOKEN, port=port), log_level="warning", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Bench(port)
    server.should_exit = True
    thread.join(30)
    listening.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("web")
    write_events(folder)
    with serving(settings_of(folder / "events.parquet")) as made:
        yield made
