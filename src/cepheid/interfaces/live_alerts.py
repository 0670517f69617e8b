"""Alerts of a live stream in, lines of JSON in the schema of ECS or OCSF out.

The lines are written by tasks of Spark: a micro-batch of alerts becomes one column of texts, which
goes to a folder, a topic or standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from cepheid.interfaces.alert_formats import Alert, alert_lines, without_log
from cepheid.interfaces.console import say_data
from cepheid.interfaces.detect import absent_columns
from cepheid.interfaces.rule_queries import Ready
from cepheid.interfaces.stream_options import KAFKA, STANDARD_OUTPUT, Options
from cepheid.runtimes.spark.sinks.calls import Write, sink
from cepheid.runtimes.spark.sinks.folder import folder_sink
from cepheid.runtimes.spark.sinks.kafka import kafka_sink
from cepheid.spark.batches import in_task
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE = "value"
"""The column of the lines."""

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def alert_sink(options: Options) -> Write:
    """Build the function that writes the alerts of a micro-batch as lines of JSON."""
    assert options.alerts is not None, "a schema of alerts is asked for"
    kind, tick_ns = options.alerts, UNITS_NS[options.time_unit]
    place = options.sink
    write = _print_lines
    if place.startswith(KAFKA):
        servers, _, topic = place.removeprefix(KAFKA).partition("/")
        write = kafka_sink(servers, topic, settings=options.settings, written=VALUE)
    elif place != STANDARD_OUTPUT:
        write = folder_sink(place, lines=True)

    @sink
    def run(batch: DataFrame, number: int) -> None:
        write(batch.mapInArrow(in_task(_Lines(kind, tick_ns)), f"{VALUE} string"), number)

    return run


@sink
def _print_lines(batch: DataFrame, _number: int) -> None:
    lines = batch.toArrow()[VALUE].to_pylist()
    say_data("".join(f"{line}\n" for line in lines).encode())
    sys.stdout.flush()


class _Lines:
    """Converts batches of alerts to lines, in a task."""

    def __init__(self, kind: str, tick_ns: int) -> None:
        self._kind, self._tick_ns = kind, tick_ns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lines = alert_lines(alerts_in(batch, self._tick_ns), self._kind)
            texts = [line.decode().rstrip("\n") for line in lines]
            yield pa.RecordBatch.from_pydict({VALUE: pa.array(texts, pa.string())})


def alerts_in(batch: pa.RecordBatch, tick_ns: int) -> list[Alert]:
    """Read the alerts of a live stream; times that are whole numbers are in ticks."""
    times: Any = batch.column("at")
    if pa.types.is_timestamp(times.type):
        times, tick_ns = pc.cast(times, pa.timestamp("us", times.type.tz)).cast(pa.int64()), 1_000
    names = ("rule", "variant", "owner", "tags", "severity", "values")
    columns = [batch.column(name).to_pylist() for name in names]
    found = []
    for rule, variant, owner, tags, severity, values, at in zip(
        *columns, times.to_pylist(), strict=True
    ):
        row = msgspec.json.decode(values)
        row.pop("match_id", None)
        if isinstance(row.get("events"), list):
            row["events"] = [_whole(event) for event in row["events"]]
        listed = tuple(tags.split(",")) if tags else ()
        at_ns = None if at is None else at * tick_ns
        one = Alert(rule, variant, owner or "", listed, severity or "", at_ns, row)
        found.append(without_log(one))
    return found


def _whole(event: dict[str, Any]) -> dict[str, Any]:
    """Leave out the parts of structures that tasks read beside these."""
    owners = {name for name, value in event.items() if isinstance(value, dict)}
    return {name: one for name, one in event.items() if not _owner(name) & owners}


def _owner(name: str) -> set[str]:
    return {name.partition(".")[0]} if "." in name else set()


def with_absent(events: DataFrame, ready: Ready) -> tuple[DataFrame, list[str]]:
    """Add columns of NULL for the fields that rules name and events lack; return their names."""
    absent = sorted(absent_columns(ready, arrow_schema(events.schema)))
    for name in absent:
        events = events.withColumn(name, sf.lit(None).cast("string"))
    return events, absent
