"""Rows as batches of JSON to a URL, with retries; what cannot be delivered is kept in a folder.

A micro-batch is sorted and cut into parts, so that a repeated micro-batch has the same parts. Each
request has an idempotency key of the query, the number of the micro-batch and the part: a receiver
that remembers keys takes every row once.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.sql import functions as sf

from cepheid.options import refuse
from cepheid.runtimes.spark.sinks.calls import Write, query_of, sink
from cepheid.runtimes.spark.sinks.retries import LONGEST_S, pauses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MAX = 500
BYTES_MAX = 1 << 20
"""A part has at most so many rows, and bytes, unless a single row has more."""

ANSWER_S = 10.0
TOKEN = "CEPHEID_WEBHOOK_TOKEN"
"""The environment variable with a token for the header Authorization."""


def webhook_sink(url: str, dead_letters: Path) -> Write:
    """Build the function for foreachBatch that posts rows to a URL.

    Parameters
    ----------
    url
        ``https://...`` or ``http://...``.
    dead_letters
        The folder for parts that the receiver refuses, or that it does not take in time.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        refuse("E590", f"a webhook is an address of http or https, not {url!r}")

    @sink
    def write(batch: DataFrame, number: int) -> None:
        query = query_of(batch)
        for part, rows in enumerate(cut(_lines(batch))):
            key = f"{query}-{number}-{part}"
            body = f'{{"query": "{query}", "epoch": {number}, "part": {part}, "rows": ['
            data = (body + ",\n".join(rows) + "]}\n").encode()
            problem = deliver(url, key, data)
            if problem:
                keep_letter(dead_letters, key, url, problem, data)

    return write


def _lines(batch: DataFrame) -> Iterator[str]:
    columns = [sf.col(f"`{name.replace('`', '``')}`") for name in batch.columns]
    lines = sf.to_json(sf.struct(*columns), {"ignoreNullFields": "false"}).alias("line")
    # One task sorts: Spark would read the rows twice to sort them in several tasks.
    ordered = batch.select(lines).repartition(1).sortWithinPartitions("line")
    for row in ordered.toLocalIterator():
        yield row[0]


def cut(lines: Iterable[str]) -> Iterator[list[str]]:
    """Cut rows into parts of limited rows and bytes.

    Examples
    --------
    >>> [len(part) for part in cut(["{}"] * 1001)]
    [500, 500, 1]
    """
    part: list[str] = []
    size = 0
    for line in lines:
        if part and (len(part) == ROWS_MAX or size + len(line) > BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def deliver(url: str, key: str, data: bytes) -> str:
    """Post a part until it is taken; return why it was not, or an empty text.

    A refusal (4xx) is final. No answer, too many requests (429) and errors of the server (5xx) are
    tried again, after longer and longer waits or what the server asks for.
    """
    problem = ""
    for pause in itertools.chain(pauses(), [None]):
        try:
            status, wait = _post(url, key, data)
        except (OSError, http.client.HTTPException) as error:
            problem, wait = f"no answer: {str(error) or type(error).__name__}", 0.0
        else:
            if 200 <= status < 300:
                return ""
            problem = f"the receiver answers {status}"
            if status < 500 and status not in (408, 425, 429):
                return problem
        if pause is not None:
            time.sleep(min(max(pause, wait), LONGEST_S))
    return problem


def _post(url: str, key: str, data: bytes) -> tuple[int, float]:
    """Post once; redirects are not followed. Return the status and how long to wait."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=ANSWER_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_S)
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, data, headers)
        answer = connection.getresponse()
        asked = answer.headers.get("Retry-After", "")
        return answer.status, float(asked) if asked.isdigit() else 0.0
    finally:
        connection.close()


def keep_letter(folder: Path, key: str, url: str, problem: str, data: bytes) -> None:
    """Write an undelivered part and the reason to a file of its key, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    letter = {"key": key, "url": url, "problem": problem, "body": json.loads(data)}
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False) as file:
        json.dump(letter, file)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(folder / f"{key}.json")
