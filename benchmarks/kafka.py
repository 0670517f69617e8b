"""From Kafka to a result on two cores, beside Flink SQL that reads the same kind of topic.

    python benchmarks/kafka.py ours
    FLINK_PYTHON=... FLINK_KAFKA=flink-sql-connector-kafka-....jar python benchmarks/kafka.py flink
    python benchmarks/kafka.py table

Each of the first two starts a broker (`make kafka` fetches it), fills a topic with JSON events,
runs every case twice and keeps the second run; ``table`` compares the answers and prints the
ratios, the losing ones first. FLINK_PYTHON is a Python with ``apache-flink``, in an environment of
its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow.compute as pc
from benchmarks.processes import cpu_seconds
from tests.servers import Broker

import cepheid
from cepheid.spark import session as spark_session

FOUND = Path(__file__).parents[1] / "build" / "kafka-throughput"
CHILD = Path(__file__).with_name("kafka_flink.py")
COLUMNS = "ts long, type string, user string, price long"
PARTITIONS, USERS, STEP_MS, BATCH = 4, 100, 3, 250_000
RUNS = 2
END_MS = 10**12
"""Later than all events."""


class Case(NamedTuple):
    """A question: the columns of our rows whose sums are compared, and the two queries."""

    sums: tuple[str, ...]
    text: str
    flink: str


_TUMBLE = "TABLE(TUMBLE(TABLE e, DESCRIPTOR(et), INTERVAL '10' SECOND))"
CASES = {
    "SELECT, windows of 10 s by user": Case(
        ("n", "total"),
        "SELECT user, COUNT(*) AS n, SUM(price) AS total FROM s GROUP BY user WINDOW 10 seconds",
        "SELECT SUM(n), SUM(total) FROM (SELECT `user`, COUNT(*) AS n, SUM(price) AS total "
        f"FROM {_TUMBLE} GROUP BY `user`, window_start, window_end)",
    ),
    "PATTERN A, the same windows": Case(
        ("count", "sum_A_price"),
        "RETURN user, COUNT(*), SUM(A.price) PATTERN A GROUP-BY user "
        "WITHIN 10 seconds SLIDE 10 seconds",
        "SELECT SUM(n), SUM(total) FROM (SELECT `user`, COUNT(*) AS n, SUM(price) AS total "
        f"FROM {_TUMBLE} WHERE type = 'A' GROUP BY `user`, window_start, window_end)",
    ),
    "SEQ(A, B), all pairs in a window": Case(
        ("count",),
        "RETURN user, COUNT(*) PATTERN SEQ(A, B) GROUP-BY user WITHIN 10 seconds SLIDE 10 seconds",
        "SELECT SUM(na) FROM (SELECT type, SUM(CASE WHEN type = 'A' THEN 1 ELSE 0 END) OVER "
        "(PARTITION BY `user`, win ORDER BY et ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
        "AS na FROM (SELECT *, ts / 10000 AS win FROM e)) WHERE type = 'B'",
    ),
    "SEQ(A, B, C), next match in 1 s": Case(
        ("a", "c"),
        "RETURN a.ts AS a, c.ts AS c PATTERN SEQ(A a, B b, C c) SEMANTICS skip-till-next-match "
        "WHERE [user] WITHIN 1 second",
        "SELECT SUM(a), SUM(c) FROM e MATCH_RECOGNIZE (PARTITION BY `user` ORDER BY et "
        "MEASURES A.ts AS a, C.ts AS c ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A X*? B Y*? C) WITHIN INTERVAL '1' SECOND "
        "DEFINE A AS A.type = 'A', X AS X.type <> 'B', B AS B.type = 'B', "
        "Y AS Y.type <> 'C', C AS C.type = 'C')",
    ),
}


def lines_of(count: int) -> list[str]:
    """Draw events, one every three milliseconds, so that no two are a second apart."""
    random = np.random.default_rng(7)
    kinds, users = random.integers(0, 3, count), random.integers(0, USERS, count)
    prices = random.integers(0, 100, count)
    return [
        f'{{"ts": {STEP_MS * n + STEP_MS}, "type": "{"ABC"[kinds[n]]}", "user": "u{users[n]}", '
        f'"price": {prices[n]}}}'
        for n in range(count)
    ]


def fill(broker: Broker, count: int, *, last: bool) -> None:
    """Write the events to a topic and, if a stream has to end, one of no type much later."""
    from confluent_kafka import Producer

    broker.create("events", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50})
    for number, line in enumerate(lines_of(count)):
        producer.produce("events", line, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    for hour in range(3 if last else 0):
        late = {"ts": END_MS + 3_600_000 * hour, "type": "Z", "user": "u0", "price": 0}
        producer.flush()
        for partition in range(PARTITIONS):
            producer.produce("events", json.dumps(late), partition=partition)
    producer.flush()


def ours(spark: Any, servers: str, case: Case, folder: Path) -> dict[str, Any]:
    """Run a query over the whole topic; return its time and sums."""
    events = cepheid.kafka.read(spark, servers, "events", columns=COLUMNS, rows=BATCH)
    found = [0 for _ in case.sums]

    def take(batch: Any, _number: int) -> None:
        table = batch.toArrow()
        if "window_start" in table.column_names:
            table = table.filter(pc.field("window_start") < END_MS)
        for place, name in enumerate(case.sums):
            found[place] += int(pc.sum(table[name]).as_py() or 0)

    cpu, begun = cpu_seconds(), time.perf_counter()
    rows = cepheid.query(case.text, time_unit="ms").stream(events, watermark="1 second")
    writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder)).start().awaitTermination()
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "cpu": cpu_seconds() - cpu, "sums": found}


def run_ours(count: int, only: str) -> dict[str, Any]:
    """Run all cases with Cepheid."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        broker = Broker(Path(place))
        try:
            fill(broker, count, last=True)
            with spark_session.session("local[2]") as spark:
                spark.conf.set("spark.sql.shuffle.partitions", "2")
                spark_session.keep_checkpoints_local(spark, place)
                for name, case in CASES.items():
                    for turn in range(RUNS if only in name else 0):
                        folder = Path(place) / f"{len(found)}-{turn}"
                        found[name] = ours(spark, broker.servers, case, folder)
        finally:
            broker.stop(kill=True)
    return found


def run_flink(count: int, only: str) -> dict[str, Any]:
    """Run all cases with Flink SQL, in a Python of its own."""
    chosen = {name: case.flink for name, case in CASES.items() if only in name}
    with tempfile.TemporaryDirectory() as place:
        broker = Broker(Path(place))
        try:
            fill(broker, count, last=False)
            cases = json.dumps(chosen)
            command = [os.environ["FLINK_PYTHON"], str(CHILD), os.environ["FLINK_KAFKA"]]
            command += [broker.servers, str(RUNS), cases]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        finally:
            broker.stop(kill=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return {one.pop("case"): one for one in map(json.loads, lines)}


def table() -> str:
    """Compare the answers, and format the ratios with the losing ones first."""
    kept = {who: json.loads((FOUND / f"{who}.json").read_text()) for who in ("ours", "flink")}
    mine, theirs = kept["ours"], kept["flink"]
    assert mine["events"] == theirs["events"], "both read as many events"
    rows = []
    for name in CASES:
        if name not in mine or name not in theirs:
            continue
        one, other = mine[name], theirs[name]
        assert one["sums"] == other["sums"], (name, one["sums"], other["sums"])
        rates = [mine["events"] / run["seconds"] for run in (one, other)]
        cells = [
            name,
            *(f"{rate:,.0f}" for rate in rates),
            f"{one['cpu']:.1f}",
            f"{other['cpu']:.1f}",
        ]
        rows.append((rates[0] / rates[1], cells))
    head = (
        "| question | Cepheid, events/s | Flink SQL, events/s | our CPU s | Flink's CPU s | ratio |"
    )
    lines = [f"| {' | '.join(cells)} | {ratio:.2f} |" for ratio, cells in sorted(rows)]
    return "\n".join([head, "|---|---|---|---|---|---|", *lines])


def main() -> None:
    """Run one system, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["ours", "flink", "table"])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="the cases whose name holds this text")
    asked = parser.parse_args()
    if asked.what == "table":
        sys.stdout.write(table() + "\n")
        return
    run = run_ours if asked.what == "ours" else run_flink
    path = FOUND / f"{asked.what}.json"
    before = json.loads(path.read_text()) if path.exists() and asked.only else {}
    found = before | {"events": asked.events} | run(asked.events, asked.only)
    FOUND.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
