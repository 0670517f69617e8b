"""Tell what a live query decides while it runs: tasks hand it to the driver, which logs it once.

Hot keys that are split and levels of shedding are noted in folders, which the tasks that send
events read in every micro-batch. They also count the events of each bucket, by which the driver
proposes another start (``jobs.skew``). Spark Connect has no way from tasks to the driver.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from cepheid.jobs.hot_keys import HotKey, names_of
from cepheid.jobs.shedding import Level
from cepheid.jobs.skew import SentEvents, SkewWatch
from cepheid.runtimes.checkpoints import BUCKETS_MAX
from cepheid.spark.batches import partition_id
from cepheid.spark.hashes import can_hash, hashes_of_keys
from cepheid.spark.notices import to_driver
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("cepheid.live")

BATCH_PROPERTY = "streaming.sql.batchId"
QUERY_PROPERTY = "sql.streaming.queryId"
KEPT = 1_000
"""Decisions of a query that are kept; the log has all of them."""
SAMPLED = 500
"""Events of a table that are sampled."""
NAME_CHARACTERS = 60
"""Characters of a key in a message."""

Tell = Callable[[Sequence[str]], object]


class Decision(NamedTuple):
    """What a live query decided, and when."""

    time: datetime
    text: str
    limit: int | None = None
    """The limit of the source from then on, if this is about one."""


_DECIDED: dict[str, deque[Decision]] = defaultdict(lambda: deque(maxlen=KEPT))
"""The decisions of the queries that this process runs, by the ids of Spark."""


def decide(query: str, text: str, *, limit: int | None = None, level: int = logging.INFO) -> None:
    """Log a decision of a query, and keep it for ``explain(analyze=True)``."""
    _DECIDED[query].append(Decision(datetime.now().astimezone(), text, limit))
    log.log(level, "%s", text)


def decided(query: str) -> list[Decision]:
    """Return the decisions of a query that this process has run."""
    return list(_DECIDED[query]) if query in _DECIDED else []


def _query_of_task() -> str:
    """Return the id of the query whose task this is; empty outside of one."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    return found or ""


class Told:
    """The decisions of a live query so far; each is logged once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def teller(self, spark: SparkSession) -> Tell:
        """Build the function by which tasks tell decisions."""
        return _WithQuery(to_driver(spark, self._hear))

    def _hear(self, heard: tuple[str, Sequence[str]]) -> None:
        query, words = heard
        with self._lock:
            new = [one for one in words if (query, one) not in self._told]
            self._told.update((query, one) for one in new)
        for one in new:
            decide(query, one)


class _WithQuery:
    """Tells facts to the driver with the query whose task knows them."""

    def __init__(self, tell: Callable[[Any], object]) -> None:
        self._tell = tell

    def __call__(self, fact: Any) -> None:
        self._tell((_query_of_task(), fact))


def words_of_keys(keys: Sequence[HotKey]) -> list[str]:
    """Describe keys that are split."""
    return [
        f"{name} has many events: split over buckets from {since} on"
        for name, since in names_of(keys).items()
    ]


def words_of_levels(allowed_ms: int, levels: Sequence[Level]) -> list[str]:
    """Describe levels of shedding."""
    found = []
    for level in levels:
        drops = f"one of {level.keep} times is kept" if level.keep > 1 else "nothing is dropped"
        begin = f"a micro-batch may take {allowed_ms / 1000:g} s: from {level.since} on"
        found.append(f"{begin}, {drops}")
    return found


class Counter:
    """Counts the events of each bucket that a task sends, and samples their keys."""

    def __init__(self, names: tuple[str, ...], buckets: int) -> None:
        self._names = names
        self._counts = np.zeros(buckets, np.int64)
        self._sample: dict[int, int] = {}
        self._name: tuple[int, str] | None = None

    def add(self, events: pa.Table, place: np.ndarray) -> None:
        """Add events that go to places."""
        self._counts += np.bincount(place, minlength=len(self._counts))
        if not len(events) or not all(can_hash(events.schema.field(n).type) for n in self._names):
            return
        each = -(-len(events) // SAMPLED)
        keys = events.select(list(self._names)).take(np.arange(0, len(events), each))
        columns = [pa.concat_arrays(column.chunks) for column in keys.columns]
        found, first, counts = np.unique(
            hashes_of_keys(columns), return_index=True, return_counts=True
        )
        for code, count in zip(found.tolist(), (counts * each).tolist(), strict=True):
            self._sample[code] = self._sample.get(code, 0) + count
        top = int(counts.argmax())
        if int(found[top]) == max(self._sample, key=self._sample.__getitem__):
            (row,) = keys.slice(first[top], 1).to_pylist()
            shown = ", ".join(f"{name} {value!r}" for name, value in row.items())
            self._name = (int(found[top]), shown[:NAME_CHARACTERS])

    def sent(self) -> SentEvents | None:
        """Return the counts; None outside of a micro-batch."""
        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
        if batch is None:
            return None
        counts = self._counts.tolist()
        return SentEvents(int(batch), partition_id(), counts, self._sample, self._name)


class Counting:
    """Lets tasks count the events of buckets, and hands the counts to a watch on the driver."""

    def __init__(
        self, spark: SparkSession, names: tuple[str, ...], buckets: int, watch: SkewWatch
    ) -> None:
        lock = threading.Lock()

        def hear(heard: tuple[str, SentEvents]) -> None:
            query, sent = heard
            with lock:
                proposal = watch.add(sent)
            if proposal:
                decide(query, proposal, level=logging.WARNING)

        self._names, self._buckets = names, buckets
        self._tell: Callable[[SentEvents], object] = _WithQuery(to_driver(spark, hear))

    def __getstate__(self) -> tuple[tuple[str, ...], int, Callable[[SentEvents], object]]:
        # Tasks count, and only the driver judges.
        return self._names, self._buckets, self._tell

    def __setstate__(
        self, state: tuple[tuple[str, ...], int, Callable[[SentEvents], object]]
    ) -> None:
        self._names, self._buckets, self._tell = state

    def start(self) -> Counter:
        """Begin to count in a task."""
        return Counter(self._names, self._buckets)

    def end(self, counter: Counter) -> None:
        """Tell the driver what a task has counted."""
        sent = counter.sent()
        if sent is not None:
            self._tell(sent)


def counting_of(
    spark: SparkSession, names: tuple[str, ...], buckets: int, *, splits: bool
) -> Counting | None:
    """Let the tasks of a query with keys count the events of its buckets."""
    if not names or is_connect(spark):
        return None
    return Counting(spark, names, buckets, SkewWatch(buckets, BUCKETS_MAX, splits=splits))
