"""Topics of Kafka in the workbench, with a real broker: rows, bad records, lag, stop and go on."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from tests.servers import Broker
from tests.web.conftest import Bench, serving

from cepheid.events.time_formats import TextTimes
from cepheid.interfaces import topic_events
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import Columns
from cepheid.interfaces.topic_events import TopicEvents
from cepheid.interfaces.topic_records import Records, inferred_fields, named_fields
from cepheid.interfaces.web.settings import Limits, Settings, TopicOptions, find_settings
from cepheid.options import OptionError
from cepheid.runtimes.kafka.topics import EARLIEST

COUNTS = "SELECT type, COUNT(*) AS n FROM events GROUP BY type WINDOW 10 seconds"
BAD = [b"{", b"[1]", b"\xff", None, b'{"ts": "soon", "type": "buy"}', b'{"type": "buy"}']
BAD += [b'{"ts": "2026-01-01T00:00:00Z", "type": 7}', b'{"a":' + b"[" * 200_000]


def record(second: float, kind: str = "buy", **more: Any) -> bytes:
    minute, rest = divmod(second, 60)
    text = f"2026-01-01T00:{int(minute):02}:{rest:06.3f}Z"
    return json.dumps({"ts": text, "type": kind, "price": 1.5, **more}).encode()


def settings_for(broker: Broker, topic: str, fields: str = "") -> Settings:
    place = f"kafka://{broker.servers}/{topic}"
    topics = TopicOptions(fields)
    return find_settings([place], Columns(), Limits(seconds=60), write=False, topics=topics)


def figures(bench: Bench, id_: str, events: int) -> dict[str, Any]:
    """Wait until so many events came; return what the run tells."""
    told: dict[str, Any] = {}
    for _ in range(400):
        told = bench.ask(f"/api/runs/{id_}")
        assert told["status"] == "running", told
        if told["events"] == events:
            return told
        time.sleep(0.05)
    pytest.fail(f"{told['events']} events came")


def rows_of(bench: Bench, id_: str) -> list[tuple[str, int]]:
    """Collect the rows that a live query that has ended told."""
    data = bench.send(f"/api/live/{id_}/events")[2]
    told = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
    rows = [one["row"] for message in told for one in message.get("batch", [])]
    return [(row["type"], row["n"]) for row in rows]


def test_a_topic_stops_and_goes_on_without_loss_or_repetition(broker: Broker) -> None:
    topic = broker.create("web-live", 2)
    broker.produce(topic, [record(n) for n in range(25)], partition=0)
    broker.produce(topic, BAD, partition=1)
    with serving(settings_for(broker, topic)) as bench:
        about = bench.ask(f"/api/data/{topic}")
        assert [one["name"] for one in about["columns"]] == ["ts", "type", "price"]
        assert len(about["sample"]) == 25
        live = {"text": COUNTS, "data": topic, "watermark": "1 second"}
        first = bench.ask("/api/live", live)["id"]
        figures(bench, first, 25)
        stopped = bench.ask(f"/api/live/{first}/stop", {})
        assert stopped["status"] == "done", stopped
        answer = stopped["answer"]
        assert (answer["bad"], answer["lag_records"], answer["broken"]) == (len(BAD), 0, "")
        # Records that come in between wait for the next one; those of a transaction, too.
        broker.produce(topic, [record(n, "sell") for n in range(25, 35)], transaction="web")
        broker.produce(topic, [record(0, "lost")] * 3, transaction="web", commit=False)
        second = bench.ask("/api/live", live | {"state": first})["id"]
        figures(bench, second, 10)
        broker.produce(topic, [record(35, "sell", unknown=1), record(51)], partition=1)
        figures(bench, second, 12)
        again = bench.ask(f"/api/live/{second}/stop", {})
        assert again["status"] == "done", again
        assert (again["answer"]["late"], again["answer"]["bad"]) == (0, 0)
        rows = [*rows_of(bench, first), *rows_of(bench, second)]
        assert bench.send("/api/live", live | {"state": first, "data": "none"})[0] == 404
    # 0 … 24 are bought, 25 … 35 sold, and 51 closes the windows before it.
    assert rows == [("buy", 10), ("buy", 10), ("buy", 5), ("sell", 5), ("sell", 6)]


def test_new_records_alone(broker: Broker) -> None:
    topic = broker.create("web-latest")
    broker.produce(topic, [record(n) for n in range(5)])
    with serving(settings_for(broker, topic)) as bench:
        live = {"text": COUNTS, "data": topic, "start": "latest"}
        id_ = bench.ask("/api/live", live)["id"]
        # Records that come before the consumer has asked for the end of the topic are old ones.
        for sent in range(60):
            broker.produce(topic, [record(9 + 20 * sent, "sell")])
            time.sleep(0.5)
            if bench.ask(f"/api/runs/{id_}")["events"] >= 2:
                break
        assert bench.ask(f"/api/live/{id_}/stop", {})["status"] == "done"
        assert set(rows_of(bench, id_)) == {("sell", 1)}
        assert bench.send("/api/live", live | {"start": "../x"})[0] == 400


def test_what_a_topic_cannot_do(broker: Broker) -> None:
    topic = broker.create("web-empty")
    with serving(settings_for(broker, topic)) as bench:
        status, _, data = bench.send(f"/api/data/{topic}")
        assert (status, b"--columns" in data) == (422, True)
        told = bench.run(COUNTS, data=topic)
        assert "has no end: start the query under Live" in told["answer"]["message"]
        # Brokers are those of the command line.
        body = {"text": COUNTS, "data": f"kafka://{broker.servers}/{topic}"}
        assert bench.send("/api/live", body)[0] == 404
    with serving(settings_for(broker, topic, "ts timestamp, type string")) as bench:
        assert bench.ask(f"/api/data/{topic}")["sample"] == []
    with serving(settings_for(broker, "web-nowhere", "ts timestamp, type string")) as bench:
        id_ = bench.ask("/api/live", {"text": COUNTS, "data": "web-nowhere"})["id"]
        told = bench.ask(f"/api/runs/{id_}?wait=30000")
        assert "there is no topic `web-nowhere`" in told["answer"]["message"]


def test_lag_falls_and_a_topic_that_is_gone_keeps_its_place(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_events, "POLL_ROWS", 10)
    topic = broker.create("web-lag", 2)
    for part in range(2):
        broker.produce(topic, [record(n) for n in range(12)], partition=part)
    data, times = settings_for(broker, topic).sets[topic], TextTimes("ts")
    fields = named_fields("ts timestamp, type string", "ts")
    events, stopped = TopicEvents(data, times, fields, None, EARLIEST), threading.Event()
    tables = events.tables(stopped)
    # Both partitions go on at the same pace.
    seen = [(len(next(tables)), events.lag) for _ in range(4)]
    assert seen == [(10, 14), (10, 4), (4, 0), (0, 0)]
    assert events.offsets == {topic: {"0": 12, "1": 12}}
    client = broker.client()
    client.delete_topics([topic])[topic].result(30)
    assert all(len(table) == 0 for table in tables)
    assert stopped.is_set()
    assert "E562" in events.broken
    # A topic of this name that is created anew is another one.
    broker.create(topic, 2)
    again = TopicEvents(data, times, fields, events.offsets, EARLIEST)
    assert list(again.tables(threading.Event())) == []
    assert "E563" in again.broken


def test_columns_of_records_that_differ() -> None:
    values = [b'{"ts": 1, "x": 1, "y": "a"}', b'{"ts": 2, "x": 1.5, "y": null, "z": null}']
    fields = inferred_fields([*values, b'{"ts": 3, "y": 5}', b'{"ts": 3, "y": "b"}'], "ts")
    assert {field.name: str(field.type) for field in fields} == {
        "ts": "int64",
        "x": "double",
        "y": "string",
    }


def test_places_and_columns_that_are_wrong() -> None:
    with pytest.raises(WrongUseError, match="kafka://host:9092/topic"):
        find_settings(["kafka://host:9092"], Columns(), Limits(), write=False)
    for text in ("ts", "ts timestamp,", "ts timestamp, x list<int>"):
        with pytest.raises(OptionError, match="E590"):
            named_fields(text, "ts")


def test_bad_records_are_found_among_good_ones() -> None:
    records = Records(named_fields("ts timestamp, type string, n bigint", "ts"), TextTimes("ts"))
    values = [record(n, n=n if n % 7 else "seven") for n in range(50)]
    assert records.events(values)["n"].to_pylist() == [n for n in range(50) if n % 7]
    assert records.bad == 8
