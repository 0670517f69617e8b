"""The numbers of running queries: what Spark tells of each micro-batch, added up, as OpenMetrics.

Observed metrics whose name starts with ``cepheid`` count: of those some are added up, and some are
taken as they are. Rows are counted at the sink, because Spark does not count them there.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from cepheid.runtimes.kafka.offsets import Offsets
from cepheid.runtimes.spark.decisions import decided
from cepheid.runtimes.spark.sinks.calls import Write, query_of
from cepheid.runtimes.spark.stream import METRICS, late_in_joins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTERS = {
    "records": "Records of the source.",
    "events": "Events that the query reads.",
    "late": "Events behind the watermark.",
    "bad": "Records that are no events.",
    "shed": "Events that were dropped because micro-batches took too long.",
}
GAUGES = {
    "buffered": "Events that wait for the watermark.",
    "partitions": "Partitions with a state.",
    "open_windows": "Windows that are not closed.",
    "state_bytes": "The size of the state.",
    "lag_seconds": "How far the watermark is behind the latest event.",
    "source_behind": "Messages of Kafka that are not read yet.",
    "latency_goal_seconds": "How long a row may wait.",
    "source_limit": "Files or records that a micro-batch takes at most, as the goal allows.",
    "decisions": "What the query has decided, at most a thousand.",
}
RULES = ("rule", "query")
"""The columns of alerts, and of a workload's rows, that name the rule."""


class Numbers:
    """The numbers of one query."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sums: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.now: dict[str, float] = {}
        self.rows: dict[str, int] = defaultdict(int)
        self.batch_count, self.batch_seconds = 0, 0.0

    def add(self, progress: Any) -> None:
        """Add what Spark tells of a micro-batch."""
        self.batch_count += 1
        self.batch_seconds += progress.durationMs.get("triggerExecution", 0) / 1000
        found: dict[str, int] = defaultdict(int)
        for name, row in progress.observedMetrics.items():
            if name.startswith(METRICS) and row is not None:
                for key, value in row.asDict().items():
                    found[key] += value if isinstance(value, int) else 0
        found["late"] += late_in_joins(progress.stateOperators)
        for name in COUNTERS:
            self.sums[name] += found[name]
        self.now = {name: float(found[name]) for name in GAUGES if name in found}
        if "lag_ms" in found:
            self.now["lag_seconds"] = found["lag_ms"] / 1000
        if "goal_ms" in found:
            self.now["latency_goal_seconds"] = found["goal_ms"] / 1000
        told = decided(str(progress.id))
        limits = [one.limit for one in told if one.limit is not None]
        if told:
            self.now["decisions"] = float(len(told))
        if limits:
            self.now["source_limit"] = float(limits[-1])
        behind = [_behind(source) for source in progress.sources]
        if any(one is not None for one in behind):
            self.now["source_behind"] = float(sum(one or 0 for one in behind))


def _behind(source: Any) -> int | None:
    """Count the messages between the end of the micro-batch and that of the topics."""
    try:
        latest: Offsets = json.loads(source.latestOffset)
        end: Offsets = json.loads(source.endOffset)
        return sum(
            offset - end.get(topic, {}).get(partition, 0)
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    except (TypeError, ValueError, AttributeError):
        return None  # The offsets of another source.


class QueryNumbers(StreamingQueryListener):
    """A listener that adds up the numbers of all queries of a session while they run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, Numbers] = {}
        self._suppressed: dict[tuple[str, str], int] = defaultdict(int)
        self._refused: dict[str, int] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Begin to count for a query; one that is started again goes on."""
        self._of(str(event.id), event.name)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Add a micro-batch."""
        progress = event.progress
        numbers = self._of(str(progress.id), progress.name)
        with self._lock:
            numbers.add(progress)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Forget a query that does not run any more."""
        with self._lock:
            self._queries.pop(str(event.id), None)

    def counted(self, write: Write) -> Write:
        """Let a sink's function count the rows that it writes, by rule in workloads."""

        @functools.wraps(write)
        def called(batch: DataFrame, number: int) -> None:
            # A second reading would run the query again.
            kept = batch.persist()
            try:
                write(kept, number)
                named = next((name for name in RULES if name in kept.columns), None)
                if named is None:
                    counts = {"": kept.count()}
                else:
                    counts = {str(r[0]): int(r[1]) for r in kept.groupBy(named).count().collect()}
            finally:
                kept.unpersist()
            numbers = self._of(query_of(batch), None)
            with self._lock:
                for rule, count in counts.items():
                    numbers.rows[rule] += count

        return called

    def suppress(self, rule: str, why: str, count: int) -> None:
        """Count rows of a rule that its limits suppressed."""
        with self._lock:
            self._suppressed[rule, why] += count

    def refuse(self, counts: Mapping[str, int]) -> None:
        """Know how often each rule was refused."""
        with self._lock:
            self._refused = dict(counts)

    def text(self) -> str:
        """Format all numbers as OpenMetrics."""
        with self._lock:
            return "\n".join([*_lines(self._queries), *self._of_rules(), "# EOF", ""])

    def _of_rules(self) -> Iterator[str]:
        """Format the numbers of rules; queries that are no rules have none."""
        if self._suppressed:
            yield from _head("suppressed", "counter", "Rows that limits of alerts suppressed.")
            for (rule, why), count in sorted(self._suppressed.items()):
                yield f"cepheid_suppressed_total{_labels(rule=rule, reason=why)} {count}"
        if self._refused:
            yield from _head("refused", "counter", "Versions of rules that were refused.")
            for rule, count in sorted(self._refused.items()):
                yield f"cepheid_refused_total{_labels(rule=rule)} {count}"

    def _of(self, query: str, name: str | None) -> Numbers:
        with self._lock:
            return self._queries.setdefault(query, Numbers(name or query))


def _lines(queries: dict[str, Numbers]) -> Iterator[str]:
    for name, about in COUNTERS.items():
        yield from _head(name, "counter", about)
        for one in queries.values():
            yield f"cepheid_{name}_total{_labels(query=one.name)} {one.sums[name]}"
    yield from _head("rows", "counter", "Rows of the result.")
    for one in queries.values():
        for rule, count in sorted(one.rows.items()):
            labels = _labels(query=one.name, rule=rule) if rule else _labels(query=one.name)
            yield f"cepheid_rows_total{labels} {count}"
    for name, about in GAUGES.items():
        yield from _head(name, "gauge", about)
        for one in queries.values():
            if name in one.now:
                yield f"cepheid_{name}{_labels(query=one.name)} {one.now[name]:g}"
    yield from _head("micro_batch_seconds", "summary", "The time that micro-batches take.")
    for one in queries.values():
        labels = _labels(query=one.name)
        yield f"cepheid_micro_batch_seconds_count{labels} {one.batch_count}"
        yield f"cepheid_micro_batch_seconds_sum{labels} {one.batch_seconds:.3f}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# TYPE cepheid_{name} {kind}"
    yield f"# HELP cepheid_{name} {about}"


def _labels(**labels: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"
