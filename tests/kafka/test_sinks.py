"""Sinks of live queries: each row once, also if a micro-batch runs again or a zombie writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.servers import Broker, Postgres

from cepheid.errors import DataError
from cepheid.options import OptionError
from cepheid.runtimes.kafka.clients import extra
from cepheid.runtimes.spark.sinks import postgres as postgres_module
from cepheid.runtimes.spark.sinks import retries, webhook
from cepheid.runtimes.spark.sinks.calls import Write
from cepheid.runtimes.spark.sinks.kafka import Target, kafka_sink, write_part
from cepheid.runtimes.spark.sinks.postgres import postgres_sink
from cepheid.runtimes.spark.sinks.webhook import webhook_sink

pytestmark = pytest.mark.timeout(300)


def twice(spark: SparkSession, write: Write, batches: list[DataFrame]) -> str:
    """Write micro-batches, each as if the driver had died after the first time."""
    context, name = spark.sparkContext, "sql.streaming.queryId"
    query = "6f2f1d2e-0000-4000-8000-000000000001"
    context.setLocalProperty(name, query)
    try:
        for number, batch in enumerate(batches):
            write(batch, number)
            write(batch.orderBy("n", ascending=False), number)
    finally:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # as Spark does
    return query


def numbers(spark: SparkSession, *counts: int) -> list[DataFrame]:
    more = ("concat('user ', id % 3) AS user", "CAST(NULL AS double) AS nothing")
    return [spark.range(count).selectExpr("id AS n", *more) for count in counts]


@pytest.mark.spark
def test_kafka_takes_each_row_once(spark: SparkSession, broker: Broker) -> None:
    write = kafka_sink(broker.servers, "sink-rows", key=["user"])
    query = twice(spark, write, numbers(spark, 40, 0, 3))
    found = broker.consume("sink-rows")
    rows = [json.loads(message.value()) for message in found]
    assert sorted(row["n"] for row in rows) == sorted([*range(40), *range(3)])
    assert rows[0]["nothing"] is None
    assert {message.key() for message in found} == {b'{"user":"user %d"}' % n for n in range(3)}
    markers = {one.key().decode(): int(one.value()) for one in broker.consume("sink-rows.epochs")}
    assert set(markers) == {f"cepheid-{query}-sink-rows-{part}" for part in range(2)}
    with pytest.raises(OptionError, match="no `other`"):
        twice(spark, kafka_sink(broker.servers, "sink-rows", key=["other"]), numbers(spark, 1))


def test_kafka_fences_a_zombie(broker: Broker) -> None:
    from confluent_kafka import KafkaException, Producer

    broker.create("sink-zombie")
    broker.create("sink-zombie.epochs")
    target = Target(broker.servers, "sink-zombie", (), "query", 7)
    name = target.writer(0)
    zombie = Producer({"bootstrap.servers": broker.servers, "transactional.id": name})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce("sink-zombie", "of the zombie")
    zombie.flush(30)
    batch = pa.RecordBatch.from_pydict({"key": pa.array([None], pa.string()), "value": ["once"]})
    assert write_part(target, 0, [batch])
    assert not write_part(target, 0, [batch]), "its number is there"
    assert not write_part(target._replace(number=6), 0, [batch]), "and so are earlier ones"
    assert write_part(target._replace(query="other"), 0, [batch]), "of this query"
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    for number in range(8, 8 + 70):
        broker.produce("sink-zombie.epochs", [str(number)], key="cepheid-third-sink-zombie-0")
    assert not write_part(target, 0, [batch]), "its number is found before many others"
    assert [one.value() for one in broker.consume("sink-zombie")] == [b"once", b"once"]


@pytest.mark.spark
def test_postgres_takes_each_row_once(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    url = f"{postgres.url}/alerts"
    plain = numbers(spark, 40, 0, 3)
    nested = "named_struct('a', 1, 't', TIMESTAMP '2026-01-01 00:00:00') AS nested"
    more = [frame.selectExpr("*", nested, "CAST(n AS decimal(9, 2)) AS d") for frame in plain]
    twice(spark, postgres_sink(url), more)
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute("SELECT n, nested->>'a', d, nothing FROM alerts").fetchall()
        assert sorted(row[0] for row in found) == sorted([*range(40), *range(3)])
        assert {(row[1], row[3]) for row in found} == {("1", None)}
        connection.execute("INSERT INTO cepheid_epochs VALUES ('other', 'alerts', 9)")
    # A server that restarts is waited for; one that is gone is told in one line.
    postgres.stop()
    monkeypatch.setattr(postgres_module, "pauses", lambda: iter([0.1]))
    with pytest.raises(DataError, match="E564"):
        twice(spark, postgres_sink(url), plain[:1])
    waiting = threading.Timer(1.0, postgres.start)
    waiting.start()
    monkeypatch.setattr(postgres_module, "pauses", lambda: iter([1.0] * 30))
    twice(spark, postgres_sink(f"{postgres.url}/public.again"), plain)
    waiting.join()
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT count(*) FROM again").fetchone() == (43,)
        connection.execute("CREATE TABLE narrow (n smallint)")
    with pytest.raises(DataError, match="could not write to table `narrow`"):
        twice(spark, postgres_sink(f"{postgres.url}/narrow"), plain[:1])
    with pytest.raises(OptionError):
        postgres_sink("postgres://host/only")


@contextmanager
def receiver(statuses: Iterator[int]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Run a receiver of webhooks that answers with these statuses; it keeps what it takes."""
    taken: list[tuple[str, Any]] = []

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = next(statuses)
            if status == 200:
                taken.append((self.headers["Idempotency-Key"], body))
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", taken
        server.shutdown()


@pytest.mark.spark
def test_a_webhook_gets_batches_with_a_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_S", 0.01)
    monkeypatch.setattr(webhook, "ROWS_MAX", 30)
    letters = tmp_path / "letters"
    with receiver(iter([503, 200, 429, 200, 200, 200])) as (url, taken):
        query = twice(spark, webhook_sink(url, letters), numbers(spark, 40))
    keys = [key for key, _ in taken]
    assert keys == [f"{query}-0-{part}" for part in (0, 1)] * 2, "the second time too"
    assert taken[0][1] == taken[2][1], "a key has the same rows"
    assert [len(body["rows"]) for _, body in taken] == [30, 10, 30, 10]
    assert sorted(row["n"] for _, body in taken[:2] for row in body["rows"]) == [*range(40)]
    assert not letters.exists()


def test_what_a_webhook_does_not_take_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_S", 0.01)
    with receiver(iter([400] + [500] * 20)) as (url, _):
        assert webhook.deliver(url, "k", b"{}") == "the receiver answers 400"
        assert webhook.deliver(url, "k", b"{}") == "the receiver answers 500"
    assert webhook.deliver("http://127.0.0.1:1/", "k", b"{}").startswith("no answer")
    webhook.keep_letter(tmp_path / "letters", "q-1-0", url, "why", b'{"rows": []}')
    (letter,) = (tmp_path / "letters").iterdir()
    assert letter.name == "q-1-0.json"
    assert json.loads(letter.read_text())["problem"] == "why"
    with pytest.raises(OptionError):
        webhook_sink("ftp://host/", tmp_path)
    assert [len(part) for part in webhook.cut(["x" * 600_000] * 3)] == [1, 1, 1]


def test_a_missing_library_is_told_in_two_lines() -> None:
    with pytest.raises(DataError) as caught:
        extra("cepheid_no_such_library", "confluent-kafka", "kafka")
    (found,) = caught.value.diagnostics
    assert found.code == "E560"
    assert "pip install 'cepheid[kafka]'" in found.helps[0]
