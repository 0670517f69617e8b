"""The broker that tests start: topics, transactions and restarts are real."""

from __future__ import annotations

from tests.servers import Broker


def test_committed_messages_survive_a_restart(broker: Broker) -> None:
    topic = broker.create("restarted")
    broker.produce(topic, [b"kept"])
    broker.produce(topic, [b"lost"], transaction="one", commit=False)
    broker.stop(kill=True)
    broker.start()
    broker.produce(topic, [b"last"], transaction="one")
    assert [message.value() for message in broker.consume(topic)] == [b"kept", b"last"]
