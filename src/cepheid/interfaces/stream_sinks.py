"""The sinks of ``cepheid stream``: a function per sink takes the rows of each micro-batch.

Spark calls it with the rows and the number of the micro-batch, and again with the same rows and
number after a crash. A sink writes the rows of a number once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from cepheid.interfaces.console import say_data
from cepheid.interfaces.live_alerts import alert_sink
from cepheid.interfaces.stream_options import (
    KAFKA,
    POSTGRES,
    RATE,
    STANDARD_OUTPUT,
    WEBHOOK,
    Options,
)
from cepheid.runtimes.spark.sinks.calls import Write, sink
from cepheid.runtimes.spark.sinks.folder import folder_sink
from cepheid.runtimes.spark.sinks.kafka import kafka_sink
from cepheid.runtimes.spark.sinks.parts import side_folder
from cepheid.runtimes.spark.sinks.postgres import postgres_place, postgres_sink
from cepheid.runtimes.spark.sinks.webhook import webhook_sink
from cepheid.runtimes.spark.stream_tasks import BAD, LATE, ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def wrong_sink(options: Options) -> str:
    """Describe the mistake in the sink; empty if there is none."""
    place = options.sink
    if place.startswith(KAFKA) and not all(place.removeprefix(KAFKA).partition("/")):
        return "a sink of Kafka is kafka://host:9092/topic"
    if place.startswith(POSTGRES) and not postgres_place(place)[1]:
        return "a sink of PostgreSQL is postgres://user@host/database/table"
    if place.startswith(WEBHOOK) and "://" not in place:
        return "a webhook is webhook:https://host/path"
    if place.startswith(RATE):
        return f"rows go to a folder, Kafka, PostgreSQL, a webhook, or -, not {place}"
    if options.alerts is not None and place.startswith((*POSTGRES, WEBHOOK)):
        return "alerts of ECS and OCSF go to a folder, a topic of Kafka, or -"
    if options.key is not None and not place.startswith(KAFKA):
        return "--key has no effect here: the sink is no topic of Kafka"
    if options.dead_letters is not None and not place.startswith(WEBHOOK):
        return "--dead-letters has no effect here: the sink is no webhook"
    if options.kafka and not any(one.startswith(KAFKA) for one in (*options.sources, place)):
        return "--kafka has no effect here: neither source nor sink is a topic of Kafka"
    return ""


def can_update(place: str) -> bool:
    """Check whether a sink can take a row again that has changed."""
    return place == STANDARD_OUTPUT or place.startswith((KAFKA, WEBHOOK))


def sinks_of(options: Options) -> dict[str, Write]:
    """Choose the functions that write rows and, if they are kept, late events and bad records."""
    found = {ROWS: sink_of(options) if options.alerts is None else alert_sink(options)}
    if options.late == "side":
        found[LATE] = _side(options, LATE)
    if options.bad == "side":
        found[BAD] = _side(options, BAD)
    return found


def beside(options: Options, part: str) -> str:
    """Choose the place of late events or bad records: beside the sink, or the checkpoint."""
    place = options.sink
    if place == STANDARD_OUTPUT or place.startswith((*POSTGRES, WEBHOOK)):
        place = str(options.checkpoint)
    return f"{place.rstrip('/')}-{part}"


def _side(options: Options, part: str) -> Write:
    place = beside(options, part)
    if place.startswith(KAFKA):
        servers, _, topic = place.removeprefix(KAFKA).partition("/")
        return kafka_sink(servers, topic, settings=options.settings)
    return side_folder(place)


def sink_of(options: Options) -> Write:
    """Choose the function that writes the rows of each micro-batch."""
    place = options.sink
    if place == STANDARD_OUTPUT:
        return print_rows
    if place.startswith(KAFKA):
        servers, _, topic = place.removeprefix(KAFKA).partition("/")
        key = options.key.split(",") if options.key else ()
        return kafka_sink(servers, topic, key=key, settings=options.settings)
    if place.startswith(POSTGRES):
        return postgres_sink(place)
    if place.startswith(WEBHOOK):
        letters = options.dead_letters or options.checkpoint / "dead-letters"
        return webhook_sink(place.removeprefix(WEBHOOK), letters)
    return folder_sink(place)


@sink
def print_rows(batch: DataFrame, _number: int) -> None:
    """Print rows as JSON lines, those of a repeated micro-batch again."""
    lines = [msgspec.json.encode(row, enc_hook=str) for row in _values(batch.toArrow())]
    say_data(b"".join(line + b"\n" for line in lines))
    sys.stdout.flush()


def _values(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert rows to Python; a time beyond the years of Python becomes text."""
    try:
        return rows.to_pylist()
    except (ValueError, OverflowError):
        fields = [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in rows.schema
        ]
        return rows.cast(pa.schema(fields)).to_pylist()
