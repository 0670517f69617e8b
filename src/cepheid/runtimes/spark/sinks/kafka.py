"""Rows as JSON to a topic of Kafka, each once: one transaction for each part of a micro-batch.

A row belongs to a part by its content, so that a repeated micro-batch has the same parts. Each part
of a query has one transactional id for ever: when a task begins to write a part, Kafka refuses all
that earlier tasks still try to write of it. The transaction also writes the number of the
micro-batch to a compacted topic, ``TOPIC.epochs``. A task that finds the number there writes
nothing, because its rows are there too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.options import names_in, refuse
from cepheid.runtimes.kafka.clients import (
    ANSWER_S,
    admin_of,
    clear_kafka,
    consumer_of,
    extra,
    fail,
    library,
)
from cepheid.runtimes.spark.batch import parallelism
from cepheid.runtimes.spark.sinks.calls import Write, query_of, sink
from cepheid.runtimes.spark.sinks.retries import pauses
from cepheid.spark.batches import in_task, partition_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECENT = 64
"""The number of last epochs of a part that are read first."""


class Target(NamedTuple):
    """Where the rows of a micro-batch go."""

    servers: str
    topic: str
    settings: tuple[tuple[str, str], ...]
    query: str
    number: int

    @property
    def epochs(self) -> str:
        """Return the topic of the numbers."""
        return f"{self.topic}.epochs"

    def writer(self, part: int) -> str:
        """Return the transactional id of a part; it does not name the micro-batch."""
        return f"cepheid-{self.query}-{self.topic}-{part}"


def kafka_sink(
    servers: str,
    topic: str,
    *,
    key: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    written: str = "",
) -> Write:
    """Build the function for foreachBatch that writes rows to a topic, each once.

    Parameters
    ----------
    servers
        The addresses of brokers.
    topic
        The topic; it is created if it is missing, and so is ``TOPIC.epochs``.
    key
        The columns that are the key of a message, as JSON; rows with equal keys stay in order.
    settings
        More settings of the client, such as ``{"security.protocol": "SSL"}``.
    written
        A column of texts that are messages already; without it, rows are written as JSON.
    """
    library()
    keys, more = names_in("key", key), tuple(sorted((settings or {}).items()))
    counts: list[int] = []

    @sink
    def write(batch: DataFrame, number: int) -> None:
        target = Target(servers, topic, more, query_of(batch), number)
        if not counts:
            counts.append(_parts(target, parallelism(batch.sparkSession)))
        missing = sorted({*keys} - {*batch.columns})
        if missing:
            refuse("E590", f"key is columns of the rows, and there is no `{missing[0]}`")
        value = sf.col(written) if written else _json(batch.columns)
        rows = batch.select(
            (_json(keys) if keys else sf.lit(None).cast("string")).alias("key"),
            value.alias("value"),
        )
        parts = rows.repartition(counts[0], "value")
        parts.mapInArrow(in_task(_write_part(target)), "written long").collect()

    return write


def _json(names: Sequence[str]) -> Column:
    columns = [sf.col(f"`{name.replace('`', '``')}`") for name in names]
    return sf.to_json(sf.struct(*columns), {"ignoreNullFields": "false"})


def _parts(target: Target, wanted: int) -> int:
    """Create the topics if they are missing; return the number of parts, which stays."""
    with clear_kafka(f"connect to {target.servers}"):
        client = admin_of(target.servers, dict(target.settings))
        known = client.list_topics(timeout=ANSWER_S).topics
        new = extra("confluent_kafka.admin", "confluent-kafka", "kafka").NewTopic
        fresh = []
        if target.topic not in known:
            fresh.append(new(target.topic))
        if target.epochs not in known:
            fresh.append(new(target.epochs, wanted, config={"cleanup.policy": "compact"}))
        if fresh:
            for made in client.create_topics(fresh).values():
                made.result(ANSWER_S)
        found = client.list_topics(target.epochs, ANSWER_S).topics[target.epochs]
        return len(found.partitions) or wanted


def _write_part(target: Target) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if len(batch)]
        if filled:
            write_part(target, partition_id(), filled)
        yield pa.RecordBatch.from_pydict({"written": pa.array([sum(map(len, filled))], pa.int64())})

    return run


def write_part(target: Target, part: int, batches: Sequence[pa.RecordBatch]) -> bool:
    """Write a part in one transaction; return whether it was not there already.

    Raises
    ------
    DataError
        E562 if the broker does not answer, E564 if another run of the query writes too.
    """
    kafka = library()
    for pause in (*pauses(), None):
        with clear_kafka(f"write to topic `{target.topic}`"):
            try:
                return _write_once(target, part, batches)
            except kafka.KafkaException as error:
                reason = error.args[0]
                if reason.code() in _fenced(kafka):
                    message = f"another run of the query writes to topic `{target.topic}`"
                    fail("E564", message, "let one driver run on a checkpoint")
                if pause is None or not (reason.retriable() or reason.txn_requires_abort()):
                    raise
                time.sleep(pause)
    raise AssertionError


def _fenced(kafka: Any) -> set[int]:
    errors = kafka.KafkaError
    return {errors._FENCED, errors.PRODUCER_FENCED, errors.INVALID_PRODUCER_EPOCH}


def _write_once(target: Target, part: int, batches: Sequence[pa.RecordBatch]) -> bool:
    kafka, name = library(), target.writer(part)
    producer = kafka.Producer(
        {
            "linger.ms": 5,
            "compression.type": "lz4",
            **dict(target.settings),
            "bootstrap.servers": target.servers,
            "transactional.id": name,
            "log_level": 0,
        }
    )
    # From here on no earlier task can commit, so what the topic says stays true.
    producer.init_transactions(ANSWER_S)
    if _last_number(target, part) >= target.number:
        return False
    producer.begin_transaction()
    try:
        for batch in batches:
            _send(producer, target.topic, batch)
        producer.produce(target.epochs, str(target.number), name, part)
        producer.commit_transaction(ANSWER_S)
    except kafka.KafkaException as error:
        if error.args[0].txn_requires_abort():
            producer.abort_transaction(ANSWER_S)
        raise
    return True


def _send(producer: Any, topic: str, batch: pa.RecordBatch) -> None:
    for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
        while True:
            try:
                producer.produce(topic, value, key)
            except BufferError:  # As much as the client keeps is on its way.
                producer.poll(0.1)
            else:
                break


def _last_number(target: Target, part: int) -> int:
    """Find the number of the last micro-batch whose part is there, or -1."""
    kafka, admin = library(), admin_of(target.servers, dict(target.settings))
    place = kafka.TopicPartition(target.epochs, part)
    specs = extra("confluent_kafka.admin", "confluent-kafka", "kafka").OffsetSpec
    # Not only what is committed: the transaction of another query may come before our number.
    ask = {"isolation_level": kafka.IsolationLevel.READ_UNCOMMITTED, "request_timeout": ANSWER_S}
    low, high = (
        admin.list_offsets({place: spec}, **ask)[place].result(ANSWER_S).offset
        for spec in (specs.earliest(), specs.latest())
    )
    if low == high:
        return -1
    consumer = consumer_of(target.servers, dict(target.settings))
    name = target.writer(part).encode()
    try:
        for begin in dict.fromkeys((max(low, high - RECENT), low)):
            consumer.assign([kafka.TopicPartition(target.epochs, part, begin)])
            found = [int(one.value()) for one in _until(consumer, high) if one.key() == name]
            if found:
                return max(found)
    finally:
        consumer.close()
    return -1


def _until(consumer: Any, end: int) -> Iterator[Any]:
    kafka, begun = library(), time.monotonic()
    while time.monotonic() - begun < 4 * ANSWER_S:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield message
        elif error.code() != kafka.KafkaError._PARTITION_EOF:
            raise kafka.KafkaException(error)
        if message.offset() + (error is None) >= end:
            return
    fail("E562", "a transaction of another client stays open")
