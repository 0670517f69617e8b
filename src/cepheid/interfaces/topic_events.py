"""Follow topics of Kafka in one process: from offsets on, as tables of events."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping

import pyarrow as pa

from cepheid.errors import DataError
from cepheid.events.time_formats import TextTimes
from cepheid.interfaces.data_sets import DataSet
from cepheid.interfaces.stream_options import kafka_place
from cepheid.interfaces.topic_records import Records, inferred_fields, named_fields
from cepheid.runtimes.kafka.clients import fail
from cepheid.runtimes.kafka.messages import Task, read_messages
from cepheid.runtimes.kafka.offsets import Offsets, flat, in_order, limited, spans
from cepheid.runtimes.kafka.topics import EARLIEST, LATEST, Topics, refuse_new_topics

SAMPLE_ROWS = 2_000
"""Records that columns are inferred from."""
POLL_ROWS = 50_000
"""Records that are read at once, at most."""
LOOK_S = 0.3
"""A topic without new records is looked at so often."""
_ONE_AT_A_TIME = threading.Lock()


def topic_fields(data: DataSet, times: TextTimes) -> pa.Schema:
    """Find the columns of topics: those that were named, or those of the first records.

    Raises
    ------
    DataError
        E501 if there are no records to infer them from, E562 if the broker does not answer.
    """
    if data.fields:
        return named_fields(data.fields, times.column)
    return inferred_fields(_first_values(data.place, _sorted(data.settings)), times.column)


def topic_sample(data: DataSet, times: TextTimes, rows: int) -> pa.Table:
    """Read the first events of topics; of topics that are empty, none."""
    records = Records(topic_fields(data, times), times)
    try:
        values = _first_values(data.place, _sorted(data.settings))
    except DataError as error:
        if error.diagnostics[0].code != "E501":
            raise
        values = ()
    return records.events(values).slice(0, rows)


def _sorted(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    limit = {"queued.min.messages": str(POLL_ROWS)}
    return tuple(sorted((limit | dict(settings)).items()))


@functools.lru_cache(maxsize=64)
def _first_values(place: str, settings: tuple[tuple[str, str], ...]) -> tuple[bytes | None, ...]:
    """Read the first records of topics, once: a page asks for them with every key."""
    servers, names = kafka_place(place)
    topics = Topics(servers, names.split(","), dict(settings))
    begin, end = topics.offsets(EARLIEST), topics.offsets(LATEST)
    found = _values(servers, settings, begin, limited(begin, end, SAMPLE_ROWS))
    if not found:
        help_ = "name them: --columns 'ts timestamp, type string, price double'"
        fail("E501", f"`{names}` has no records yet, so its columns are not known", help_)
    return tuple(found)


class TopicEvents:
    """The events of topics from offsets on, without an end.

    Attributes
    ----------
    offsets
        Where the records begin that were not handed out yet.
    lag
        How many records are there that were not.
    broken
        Why no more come; empty as long as they do.
    """

    def __init__(
        self,
        data: DataSet,
        times: TextTimes,
        fields: pa.Schema,
        offsets: Offsets | None,
        start: str,
    ) -> None:
        self._servers, names = kafka_place(data.place)
        self._settings = _sorted(data.settings)
        self._topics = Topics(self._servers, names.split(","), dict(self._settings))
        self._records = Records(fields, times)
        self.offsets = self._topics.offsets(start) if offsets is None else offsets
        self.lag = 0
        self.broken = ""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the events."""
        return self._records.schema

    @property
    def bad(self) -> int:
        """Count the records that are no events."""
        return self._records.bad

    def tables(self, stopped: threading.Event) -> Iterator[pa.Table]:
        """Yield events as they come, and empty tables while none do, until it is stopped.

        Each table has what all partitions had up to some offsets, because its events are sorted
        together. If the broker fails, it stops with the reason, and can go on from its offsets.
        """
        while not stopped.is_set():
            try:
                values = self._next()
            except DataError as error:
                self.broken = str(error)
                stopped.set()
                return
            yield self._records.events(values)
            if not values:
                stopped.wait(LOOK_S)

    def _next(self) -> list[bytes | None]:
        """Read the next records, and move the offsets behind them."""
        last = self._topics.offsets(LATEST)
        refuse_new_topics(flat(self.offsets), flat(last))
        fresh = sorted(flat(last).keys() - flat(self.offsets).keys())
        if fresh:
            first = self._topics.offsets(EARLIEST, fresh)
            self.offsets = in_order(flat(self.offsets) | flat(first))
        until = limited(self.offsets, last, POLL_ROWS)
        values = _values(self._servers, self._settings, self.offsets, until)
        self.offsets = in_order(flat(self.offsets) | flat(until))
        ends = flat(last)
        self.lag = sum(ends.get(place, at) - at for place, at in flat(self.offsets).items())
        return values


def _values(
    servers: str, settings: tuple[tuple[str, str], ...], begin: Offsets, end: Offsets
) -> list[bytes | None]:
    """Read the values of the records between offsets."""
    found = tuple((one.topic, one.partition, one.begin, one.end) for one in spans(begin, end))
    if not found:
        return []
    task = Task(servers, settings, found, headers=False, skip_lost=False)
    # All readers of a process share a consumer.
    with _ONE_AT_A_TIME:
        return [
            value for batch in read_messages(task) for value in batch.column("value").to_pylist()
        ]
