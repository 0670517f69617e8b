"""The partitions of topics, and their first, last and timed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepheid.runtimes.kafka.clients import ANSWER_S, admin_of, clear_kafka, fail, library
from cepheid.runtimes.kafka.offsets import Offsets, flat, in_order

EARLIEST, LATEST, TIME = "earliest", "latest", "time:"


class Topics:
    """The partitions of some topics, and their offsets.

    Raises
    ------
    DataError
        E562 if a topic is missing or the broker does not answer.
    """

    def __init__(self, servers: str, names: Sequence[str], more: Mapping[str, str]) -> None:
        self._names = tuple(names)
        with clear_kafka(f"connect to {servers}"):
            self._client = admin_of(servers, more)

    def partitions(self) -> list[tuple[str, int]]:
        """List all partitions, new ones too."""
        with clear_kafka("read the topics"):
            known = self._client.list_topics(timeout=ANSWER_S).topics
        missing = [name for name in self._names if name not in known or known[name].error]
        if missing:
            fail("E562", f"there is no topic `{missing[0]}`", f"create it: {_create(missing[0])}")
        return [(name, number) for name in self._names for number in sorted(known[name].partitions)]

    def offsets(self, where: str, places: Sequence[tuple[str, int]] | None = None) -> Offsets:
        """Find an offset of every partition: the first, the last committed, or that of a time."""
        if places is None:
            places = self.partitions()
        kafka, spec = library(), self._spec(where)
        asked = {kafka.TopicPartition(*place): spec for place in places}
        committed = kafka.IsolationLevel.READ_COMMITTED
        with clear_kafka("read the offsets"):
            answers = self._client.list_offsets(
                asked, isolation_level=committed, request_timeout=ANSWER_S
            )
            found = {
                (place.topic, place.partition): int(answer.result(ANSWER_S).offset)
                for place, answer in answers.items()
            }
        if where.startswith(TIME) and min(found.values(), default=0) < 0:
            # No message is that late: such partitions begin with the next one.
            ends = flat(self.offsets(LATEST, places))
            found = {place: ends[place] if at < 0 else at for place, at in found.items()}
        return in_order(found)

    def _spec(self, where: str) -> Any:
        spec = library().admin.OffsetSpec
        if where.startswith(TIME):
            return spec.for_timestamp(int(where.removeprefix(TIME)))
        return spec.earliest() if where == EARLIEST else spec.latest()


def _create(topic: str) -> str:
    return f"kafka-topics --create --topic {topic}"


def refuse_new_topics(
    read: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> None:
    """Refuse topics that end before what was read of them.

    Raises
    ------
    DataError
        E563: such a topic was deleted and created again.
    """
    for (topic, partition), offset in read.items():
        at = ends.get((topic, partition), offset)
        if at < offset:
            message = f"topic `{topic}` ends at offset {at} of partition {partition}, "
            message += f"but the query has read up to {offset}"
            fail("E563", message, "if the topic was created anew, start with a new checkpoint")
