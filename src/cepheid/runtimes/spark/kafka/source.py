"""A source of Spark's Python Data Source API: topics of Kafka in, Arrow batches of messages out.

    driver   asks for the ends of all partitions, and cuts them to the largest micro-batch
    Spark    writes these offsets to its log before it runs the micro-batch
    tasks    read the spans between two offsets, the same ones again after a crash

Spark 4.2 and newer tell a source how many rows a micro-batch may have, and when to stop. Older
versions do not: there a micro-batch takes everything, and availableNow is one micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from cepheid.runtimes.kafka.clients import fail
from cepheid.runtimes.kafka.messages import Task, read_messages
from cepheid.runtimes.kafka.offsets import (
    Offsets,
    flat,
    in_order,
    limited,
    shared,
    spans,
)
from cepheid.runtimes.kafka.topics import EARLIEST, LATEST, Topics, refuse_new_topics

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:  # Before Spark 4.2.
    admission = None  # type: ignore[assignment]  # what is missing is a module

LIMITS = bool(admission)
"""Whether Spark tells a source how much to read."""

NAME = "cepheid-kafka"
COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
HEADERS = ", headers array<struct<key: string, value: binary>>"
"""The same names and types as those of Spark's own connector."""


class KafkaSource(datasource.DataSource):
    """Topics of Kafka as a stream; `cepheid.kafka.read` sets its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.readStream.format``."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a message."""
        return COLUMNS + (HEADERS if self.options.get("headers") == "true" else "")

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Create the reader of a query."""
        reader = LimitedReader if LIMITS else WholeReader
        return reader({name: str(value) for name, value in self.options.items()})


class WholeReader(datasource.DataSourceStreamReader):
    """Reads everything that is there in each micro-batch, for Spark before 4.2."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._more: dict[str, str] = json.loads(options["settings"])
        self._found: Topics | None = None

    @property
    def _topics(self) -> Topics:
        # Late, because the reader travels to workers, and a connection cannot.
        if self._found is None:
            names = self._options["topics"].split(",")
            self._found = Topics(self._options["servers"], names, self._more)
        return self._found

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Find where the first micro-batch begins."""
        start = self._options["start"]
        if not start.startswith("{"):
            return self._topics.offsets(start)
        given = flat(json.loads(start))
        first = flat(self._topics.offsets(EARLIEST))
        if unknown := sorted(given.keys() - first.keys()):
            topic, partition = unknown[0]
            fail("E562", f"topic `{topic}` has no partition {partition} to start from")
        return in_order(first | given)

    def latestOffset(self) -> Offsets:  # type: ignore[override]  # noqa: N802 - as of Spark 4.1
        """Find the end of everything that is committed."""
        return self._topics.offsets(LATEST)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[datasource.InputPartition]:
        """Share what lies between two offsets among tasks."""
        fresh = sorted(flat(end).keys() - flat(start).keys())
        if fresh:
            start = in_order(flat(start) | flat(self._topics.offsets(EARLIEST, fresh)))
        found = shared(spans(start, end), int(self._options["tasks"]))
        return [datasource.InputPartition(tuple(map(tuple, one))) for one in found]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of a task."""
        return read_messages(
            Task(
                self._options["servers"],
                tuple(sorted(self._more.items())),
                partition.value,
                headers=self._options["headers"] == "true",
                skip_lost=self._options["loss"] == "skip",
            )
        )


if LIMITS:

    class LimitedReader(WholeReader, admission.SupportsTriggerAvailableNow):
        """Reads as much as Spark asks for in each micro-batch."""

        _target: Offsets | None = None

        def getDefaultReadLimit(self) -> admission.ReadLimit:  # noqa: N802 - Spark's name
            """Limit a micro-batch to the rows of the option."""
            rows = int(self._options["rows"])
            return admission.ReadMaxRows(rows) if rows else admission.ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Remember the end of what is there now."""
            self._target = self._topics.offsets(LATEST)

        def reportLatestOffset(self) -> Offsets:  # noqa: N802 - Spark's name
            """Find the end of everything, for the progress of the query."""
            return self._topics.offsets(LATEST)

        def latestOffset(self, start: Offsets, limit: admission.ReadLimit) -> Offsets:  # type: ignore[override]  # noqa: N802 - as of Spark 4.2
            """Find where the micro-batch that begins at an offset ends.

            Raises
            ------
            DataError
                E563 if a topic ends before the offset: it was deleted and created again.
            """
            end = flat(self._target or self._topics.offsets(LATEST))
            if self._target is None:
                refuse_new_topics(flat(start), end)
            for place, offset in flat(start).items():
                end[place] = max(end.get(place, offset), offset)
            found = in_order(end)
            rows = getattr(limit, "max_rows", 0)
            return limited(start, found, rows) if rows else found
