"""The numbers of running live queries, for Prometheus and others that read OpenMetrics.

`serve` listens to the queries of a session and answers ``http://127.0.0.1:PORT/metrics``;
`hold_latency` lets the limit of a query follow what its micro-batches take.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from cepheid.options import refuse
from cepheid.runtimes.spark.latency import hold_latency
from cepheid.runtimes.spark.query_numbers import QueryNumbers
from cepheid.runtimes.spark.sinks.calls import Write

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

__all__ = ["Metrics", "hold_latency", "serve"]

CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"
REQUEST_S = 10
PORT_MAX = 65_535


class Metrics:
    """The numbers of all live queries of a session, and the server that shows them.

    Parameters
    ----------
    spark
        The session.
    port
        The port of 127.0.0.1; 0 takes a free one.
    """

    def __init__(self, spark: SparkSession, port: int) -> None:
        self._spark, self._numbers = spark, QueryNumbers()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _answer(self._numbers))
        self._server.daemon_threads = True
        self.port = int(self._server.server_port)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        spark.streams.addListener(self._numbers)

    def text(self) -> str:
        """Return the text of the metrics page."""
        return self._numbers.text()

    def counted(self, write: Write) -> Write:
        """Let a function for foreachBatch count the rows that it writes.

        Spark does not count what foreachBatch writes, so ``cepheid_rows`` needs it.
        """
        return self._numbers.counted(write)

    def suppressed(self, rule: str, why: str, count: int) -> None:
        """Count rows of a rule that its limits suppressed."""
        self._numbers.suppress(rule, why, count)

    def refused(self, counts: Mapping[str, int]) -> None:
        """Show how often each rule was refused."""
        self._numbers.refuse(counts)

    def close(self) -> None:
        """Stop the server and listen no more."""
        self._spark.streams.removeListener(self._numbers)
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def serve(spark: SparkSession, port: int = 9464) -> Metrics:
    """Show the numbers of all live queries of a session at ``http://127.0.0.1:PORT/metrics``.

    Parameters
    ----------
    spark
        The session.
    port
        A port of this machine; 0 takes a free one, which is the attribute ``port``.

    Raises
    ------
    OptionError
        E590 if the port cannot be used.
    """
    if not 0 <= port <= PORT_MAX:
        refuse("E590", f"port is 0 to {PORT_MAX}, not {port}")
    try:
        return Metrics(spark, port)
    except OSError as error:
        refuse("E590", f"port {port} cannot be used: {error.strerror}")


def _answer(numbers: QueryNumbers) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        timeout = REQUEST_S

        def do_GET(self) -> None:
            """Answer with the numbers."""
            found = self.path.partition("?")[0] in ("/", "/metrics")
            data = numbers.text().encode() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Keep quiet: a library does not print."""

    return Answer
