"""Drivers are killed while they read Kafka and write Kafka or PostgreSQL: each row comes once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.servers import Broker, Postgres

from cepheid.api import query
from cepheid.interfaces.stream_command import stream_in
from cepheid.interfaces.stream_options import Options

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
QUERY = "RETURN user, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY user WITHIN 8 s SLIDE 4 s"
COLUMNS = "ts timestamp, type string, user string"
FAR = 900


def events_of(count: int) -> list[dict[str, Any]]:
    """Draw events of a few users, one a second and two at a time, and one far later."""
    chance = random.Random(count)
    found = [
        {"ts": number // 2, "type": chance.choice("AB"), "user": f"u{chance.randrange(4)}"}
        for number in range(count)
    ]
    return [*found, {"ts": count + FAR, "type": "C", "user": "u0"}]


def stamped(event: dict[str, Any]) -> str:
    second = event["ts"]
    stamp = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return json.dumps(event | {"ts": stamp})


def fill(broker: Broker, topic: str, events: list[dict[str, Any]]) -> None:
    """Write events in transactions, with bad values, between others that are aborted."""
    broker.create(topic, 2)
    for begin in range(0, len(events), 80):
        values = [stamped(event) for event in events[begin : begin + 80]]
        broker.produce(topic, ["{", *values], transaction=topic, partition=begin // 80 % 2)
        broker.produce(topic, values[:9], transaction=topic, commit=False, partition=0)


def expected(events: list[dict[str, Any]]) -> Counter[tuple[str, float]]:
    rows = query(QUERY).run([event | {"ts": event["ts"] * 1_000_000} for event in events])
    found = rows if isinstance(rows, list) else rows.to_pylist()
    assert found
    return Counter((row["user"], row["count"]) for row in found)


def commits(checkpoint: Path) -> int:
    return sum(path.name.isdigit() for path in checkpoint.glob("commits/*"))


def kill(options: Options, kills: int, folder: Path) -> int:
    """Start drivers and kill each after it got on; return how many were at work."""
    chance, killed = random.Random(kills), 0
    given = msgspec.json.encode(options, enc_hook=str).decode()
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    for _ in range(kills):
        before = commits(options.checkpoint) + chance.randint(1, 2)
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.live_driver", QUERY, given],
                env=os.environ | {"PYTHONPATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while process.poll() is None and commits(options.checkpoint) < before:
            time.sleep(0.02)
        time.sleep(0.3 * chance.random())
        if process.poll() is None:
            killed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return killed


def from_kafka_to_kafka(
    spark: SparkSession, broker: Broker, folder: Path, kills: int, *, restart: bool
) -> None:
    events = events_of(200 + 200 * kills)
    source, sink = f"kills-{kills}", f"killed-{kills}"
    fill(broker, source, events)
    place = f"kafka://{broker.servers}"
    options = Options(
        f"{place}/{source}", f"{place}/{sink}", folder / "state", "400 seconds", once=True,
        columns=COLUMNS, rows=100, key="user",
    )  # fmt: skip
    assert kill(options, kills, folder) >= 1, (folder / "log").read_text()[-3000:]
    if restart:
        broker.stop()
        broker.start()
    stream_in(spark, query(QUERY), options)
    rows = [json.loads(message.value()) for message in broker.consume(sink)]
    assert Counter((row["user"], row["count"]) for row in rows) == expected(events)


def test_kafka_to_kafka(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    from_kafka_to_kafka(spark, broker, tmp_path, 1, restart=True)


@pytest.mark.slow
def test_kafka_to_kafka_with_many_kills(
    spark: SparkSession, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = max(10, int(request.config.getoption("--kills")))
    from_kafka_to_kafka(spark, broker, tmp_path, kills, restart=False)


@pytest.mark.slow
def test_kafka_to_postgres(
    spark: SparkSession, broker: Broker, postgres: Postgres, tmp_path: Path
) -> None:
    import psycopg

    events = events_of(500)
    fill(broker, "kills-postgres", events)
    options = Options(
        f"kafka://{broker.servers}/kills-postgres", f"{postgres.url}/killed", tmp_path / "state",
        "400 seconds", once=True, columns=COLUMNS, rows=100,
    )  # fmt: skip
    assert kill(options, 2, tmp_path) >= 1
    stream_in(spark, query(QUERY), options)
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute('SELECT "user", count FROM killed').fetchall()
    assert Counter(found) == expected(events)
