"""Topics of Kafka as streams of events, and as sinks of live queries.

`read` returns a streaming DataFrame for ``q.stream``. It uses Spark's own connector where it is on
the class path, and else a source over librdkafka that needs no jar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cepheid.options import names_in, one_of, refuse, texts
from cepheid.runtimes.kafka.topics import EARLIEST, LATEST, TIME
from cepheid.runtimes.spark.kafka.open import CONNECTORS, Reading, open_raw
from cepheid.runtimes.spark.kafka.values import (
    FORMATS,
    KEPT,
    coded_events,
    coding_of,
    json_events,
)
from cepheid.runtimes.spark.sinks.kafka import kafka_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "sink"]

sink = kafka_sink

Start = str | datetime | Mapping[str, Mapping[int | str, int]]


def read(
    spark: SparkSession,
    servers: str,
    topics: str | Sequence[str],
    *,
    columns: str | None = None,
    format: str = "json",  # noqa: A002 - the word that Spark uses
    schema: str | None = None,
    registry: str | None = None,
    message: str = "",
    start: Start = EARLIEST,
    rows: int | None = None,
    keep: Sequence[str] = (),
    on_loss: str = "fail",
    settings: Mapping[str, str] | None = None,
    connector: str = "auto",
) -> DataFrame:
    """Open topics of Kafka as a streaming DataFrame of events.

    Values that cannot be read do not stop a query. They are rows too, with the value in ``_raw``,
    topic, partition and offset in ``_origin``, and the reason in ``_reason``.

    Parameters
    ----------
    spark
        The session.
    servers
        The addresses of brokers, ``"host:9092,other:9092"``.
    topics
        One topic or several.
    columns
        The fields of JSON values with their types, ``"ts timestamp, type string, user string"``.
    format
        How values are coded: ``"json"``, ``"avro"``, ``"protobuf"``; ``"raw"`` returns messages.
    schema
        A file with the schema of Avro (``.avsc``) or the descriptor set of Protobuf.
    registry
        The address of a schema registry. Values then have Confluent's header. The newest schema of
        the first topic gives the columns; ``schema`` does if the registry does not answer.
    message
        The name of Protobuf's message; the first one of the descriptor without it.
    start
        Where a query without a checkpoint begins: ``"earliest"``, ``"latest"``, a time, or offsets
        by topic and partition, ``{"trades": {0: 1200}}``.
    rows
        The most messages of a micro-batch; all that are there without it. It needs Spark 4.2.
    keep
        Parts of a message to keep as columns: ``key``, ``topic``, ``partition``, ``offset``,
        ``timestamp`` and ``headers``, named ``_key`` and so on.
    on_loss
        ``"fail"`` if messages were deleted before they were read, or ``"skip"`` to go on.
    settings
        More settings of the client, such as ``{"security.protocol": "SSL"}``.
    connector
        ``"spark"`` for Spark's own connector, ``"python"`` for the source without a jar, or
        ``"auto"``.

    Raises
    ------
    OptionError
        E590 to E592 for an unusable argument.
    DataError
        E560 if a library is missing, E565 if there is no schema, E525 without a connector.
    """
    texts(servers=servers)
    names = (topics,) if isinstance(topics, str) else names_in("topics", topics)
    if not servers or not names or not all(names):
        refuse("E590", "servers and topics are not empty")
    one_of("format", format, FORMATS)
    one_of("on_loss", on_loss, ("fail", "skip"))
    one_of("connector", connector, CONNECTORS)
    for name in names_in("keep", keep):
        one_of("keep", name, KEPT)
    _check_schema(format, columns, schema, registry)
    if rows is not None and rows < 1:
        refuse("E590", f"rows is 1 or more, not {rows!r}")
    reading = Reading(
        servers, names, _start(start), rows, "headers" in keep, on_loss, dict(settings or {})
    )
    # A missing schema is told before the broker is asked.
    coding = None
    if format in ("avro", "protobuf"):
        coding = coding_of(format, names[0], schema, registry, message)
    raw = open_raw(spark, reading, connector)
    if coding is not None:
        return coded_events(raw, coding, keep)
    return raw if columns is None else json_events(raw, columns, keep)


def _check_schema(form: str, columns: str | None, schema: str | None, registry: str | None) -> None:
    if (columns is None) == (form == "json"):
        problem = "needs" if columns is None else "has no use for"
        refuse("E591", f"format {form!r} {problem} columns")
    if form in ("json", "raw") and (schema or registry):
        refuse("E591", f"format {form!r} has no use for a schema or a registry")
    if form in ("avro", "protobuf") and not schema and not registry:
        refuse("E590", f"format {form!r} needs a schema, from a file or a registry")


def _start(start: Start) -> str:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            refuse("E590", "start is a time with a time zone")
        return f"{TIME}{int(start.timestamp() * 1000)}"
    if isinstance(start, str):
        one_of("start", start, (EARLIEST, LATEST))
        return start
    if not isinstance(start, Mapping):
        refuse("E592", "start is earliest, latest, a time or offsets")
    offsets = {
        topic: {str(int(part)): int(at) for part, at in parts.items()}
        for topic, parts in start.items()
    }
    return json.dumps(offsets)
