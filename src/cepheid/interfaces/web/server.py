"""Serve a workbench on this machine until somebody stops it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.web.app import make_app
from cepheid.interfaces.web.guard import new_token
from cepheid.interfaces.web.settings import Settings

HOST = "127.0.0.1"


def serve(settings: Settings, port: int, tell: Callable[[str], None]) -> None:
    """Serve on 127.0.0.1; ``tell`` gets the address with its token, once it can be opened.

    Raises
    ------
    WrongUseError
        If the port is taken.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            message = f"could not listen on port {port}: {why}; choose one with --port"
            raise WrongUseError(message) from None
        # Requests wait in the queue until the loop runs.
        listening.listen(64)
        chosen: int = listening.getsockname()[1]
        token = new_token()
        app = make_app(settings, token=token, port=chosen)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, ws="none",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        tell(f"http://{HOST}:{chosen}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
