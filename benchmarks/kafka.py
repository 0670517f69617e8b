"""Measure how fast messages of Kafka become events: our source beside Spark's source of files.

    python benchmarks/kafka.py [EVENTS]

It starts the broker of the tests (`make kafka` fetches it), and reads the same JSON events from a
topic and from files, on two cores, with no query and with a query.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame, SparkSession
from tests.servers import Broker
from tests.spark_options import options

import cepheid

COLUMNS = "ts timestamp, type string, user string, price double"
QUERY = """RETURN user, COUNT(*) PATTERN SEQ(A+, B) WHERE [user] GROUP-BY user
WITHIN 10 seconds SLIDE 10 seconds"""
PARTITIONS = 4


def stamp(n: int) -> str:
    hour, minute, second = n // 3600000 % 24, n // 60000 % 60, n / 1000 % 60
    return f"2026-01-01T{hour:02}:{minute:02}:{second:06.3f}Z"


def lines_of(count: int) -> list[str]:
    return [
        json.dumps(
            {
                "ts": stamp(n),
                "type": "AB"[n % 2],
                "user": f"u{n * 7919 % 1000}",
                "price": n % 97 / 2,
            }
        )
        for n in range(count)
    ]


def measure(frame: DataFrame, folder: Path) -> float:
    begun = time.perf_counter()
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder)).start().awaitTermination()
    return time.perf_counter() - begun


def fill(broker: Broker, lines: list[str]) -> None:
    from confluent_kafka import Producer

    broker.create("events", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50})
    for number, line in enumerate(lines):
        producer.produce("events", line, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def main(count: int) -> None:
    lines = lines_of(count)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "broker").mkdir()
        (folder / "files").mkdir()
        broker = Broker(folder / "broker")
        builder = SparkSession.builder.master("local[2]")
        for name, value in options().items():
            builder = builder.config(name, value)
        spark = builder.config("spark.sql.codegen.wholeStage", "true").getOrCreate()
        try:
            fill(broker, lines)
            size = -(-count // PARTITIONS)
            for number in range(PARTITIONS):
                part = lines[number * size : (number + 1) * size]
                (folder / "files" / f"{number}.json").write_text("\n".join(part))
            compare(spark, broker, folder, count)
        finally:
            spark.stop()
            broker.stop(kill=True)


def compare(spark: SparkSession, broker: Broker, folder: Path, count: int) -> None:
    query = cepheid.query(QUERY)
    ways: dict[str, Any] = {
        "kafka, raw": lambda: cepheid.kafka.read(spark, broker.servers, "events", format="raw"),
        "kafka, JSON": lambda: cepheid.kafka.read(spark, broker.servers, "events", columns=COLUMNS),
        "files, JSON": lambda: spark.readStream.schema(COLUMNS).json(str(folder / "files")),
    }
    for name in [*ways][1:]:
        ways[f"{name}, query"] = lambda name=name: query.stream(ways[name](), watermark="1 second")
    for name, build in ways.items():
        for turn in range(2):  # The first one warms up.
            seconds = measure(build(), folder / f"{name}-{turn}")
        print(f"{name:<24} {count / seconds:>12,.0f} events/s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
