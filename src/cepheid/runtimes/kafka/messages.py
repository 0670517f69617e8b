"""The messages between two offsets of some partitions, as Arrow batches.

Only committed messages are read. Transactions leave gaps: their end is a message that no consumer
sees, and so are messages that were aborted. So a task counts no messages. It reads a partition
until a message at or after the end comes, or the end of the partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.runtimes.kafka.clients import (
    ANSWER_S,
    clear_kafka,
    consumer_of,
    fail,
    library,
)
from cepheid.runtimes.kafka.offsets import Span

BATCH_ROWS = 20_000
STALL_S = 120.0
"""The longest silence of a broker, such as a restart."""

_HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Task(NamedTuple):
    """The range of messages that a task reads."""

    servers: str
    settings: tuple[tuple[str, str], ...]
    spans: tuple[tuple[str, int, int, int], ...]
    headers: bool
    skip_lost: bool


_consumers: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
"""The consumer of this process: it connects once, and is assigned anew for every task."""


def read_messages(task: Task) -> Iterator[pa.RecordBatch]:
    """Read all messages of the spans of a task.

    Raises
    ------
    DataError
        E562 if the broker stops to answer, E563 if messages are no longer there.
    """
    with clear_kafka(f"read from {task.servers}"):
        consumer = _consumer(task)
        kafka = library()
        spans = [Span(*one) for one in task.spans]
        consumer.assign([kafka.TopicPartition(s.topic, s.partition, s.begin) for s in spans])
        ends = {(span.topic, span.partition): span.end for span in spans}
        reading = set(ends)
        heard = time.monotonic()
        try:
            while reading:
                first = consumer.poll(1.0)
                if first is None:
                    if time.monotonic() - heard > STALL_S:
                        topic, partition = min(reading)
                        message = f"topic `{topic}`, partition {partition}, gives no more messages"
                        fail("E562", message)
                    continue
                heard = time.monotonic()
                # What has arrived already; a longer wait would be for a full batch.
                got = [first, *consumer.consume(BATCH_ROWS - 1, 0)]
                kept = [one for one in got if one.error() is None]
                if len(kept) < len(got):
                    for one in got:
                        if one.error() is not None:
                            _note(consumer, one, ends, reading, task)
                kept = _within(kept, ends, reading)
                if kept:
                    yield _batch(kept, headers=task.headers)
        finally:
            consumer.unassign()


def _consumer(task: Task) -> Any:
    key = (task.servers, task.settings)
    if key not in _consumers:
        _consumers[key] = consumer_of(task.servers, dict(task.settings))
    return _consumers[key]


def _within(
    messages: list[Any], ends: dict[tuple[str, int], int], reading: set[tuple[str, int]]
) -> list[Any]:
    """Keep messages before the ends; a message at or after an end finishes its partition."""
    kept = []
    for message in messages:
        place, offset = (message.topic(), message.partition()), message.offset()
        if offset < ends[place]:
            kept.append(message)
        if offset >= ends[place] - 1:
            reading.discard(place)
    return kept


def _note(
    consumer: Any,
    message: Any,
    ends: dict[tuple[str, int], int],
    reading: set[tuple[str, int]],
    task: Task,
) -> None:
    """Take what a consumer says instead of a message: the end of a partition, or an error."""
    kafka, error = library(), message.error()
    place = (message.topic(), message.partition())
    if error.code() == kafka.KafkaError._PARTITION_EOF:
        if message.offset() >= ends[place]:
            reading.discard(place)
        return
    if error.code() != kafka.KafkaError._AUTO_OFFSET_RESET:
        raise kafka.KafkaException(error)
    begin = next(s[2] for s in task.spans if (s[0], s[1]) == place)
    low, _ = consumer.get_watermark_offsets(kafka.TopicPartition(*place), ANSWER_S)
    if not task.skip_lost:
        text = f"topic `{place[0]}`, partition {place[1]}, no longer has the messages from "
        text += f"{begin} to {low}"
        help_ = 'keep messages for longer, or go on without them: on_loss="skip"'
        fail("E563", text, help_)
    if low >= ends[place]:
        reading.discard(place)
    else:
        # A partition with an error cannot be sought; it has to be assigned anew.
        consumer.incremental_unassign([kafka.TopicPartition(*place)])
        consumer.incremental_assign([kafka.TopicPartition(*place, low)])


def _batch(messages: list[Any], *, headers: bool) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {
        "key": pa.array([one.key() for one in messages], pa.binary()),
        "value": pa.array([one.value() for one in messages], pa.binary()),
        "topic": pa.array([one.topic() for one in messages], pa.string()),
        "partition": pa.array([one.partition() for one in messages], pa.int32()),
        "offset": pa.array([one.offset() for one in messages], pa.int64()),
    }
    stamps = pa.array([one.timestamp()[1] for one in messages], pa.timestamp("ms", "UTC"))
    columns["timestamp"] = stamps.cast(pa.timestamp("us", "UTC"))
    if headers:
        columns["headers"] = pa.array([_headers(one) for one in messages], _HEADER)
    return pa.RecordBatch.from_pydict(columns)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    found = message.headers()
    return None if found is None else [{"key": name, "value": value} for name, value in found]
