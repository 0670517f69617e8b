"""Discovery over a DataFrame of Spark: tasks count whole cases, and their counts are added up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from cepheid.discovery.cases import Cases, Names, check_columns, read_cases
from cepheid.discovery.counting import Counter, Pairs, Prefixes, Seen, facts_of
from cepheid.discovery.declare import Facts
from cepheid.discovery.ladder import ladder
from cepheid.discovery.ranking import Groups
from cepheid.discovery.sequences import Counts, count_longer, count_waits, places_of
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import read_schema
from cepheid.jobs.ticks import tick_of
from cepheid.patterns.scope import Source
from cepheid.spark.batches import in_task
from cepheid.spark.failures import clear_failures
from cepheid.spark.text_times import timed_frame
from cepheid.spark.whole_frames import refuse_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ARRIVAL = "__arrival"
"""A column that says where an event stood in the DataFrame (§10.7)."""

PREFIXES = 500
"""Sequences that tasks count at a time: what they send to the driver takes some megabytes."""

_KEY, _TYPE, _LABEL = "_key", "_type", "_label"
_SENT = "numbers binary"

Task = Callable[[Cases], list[NDArray[np.int64]]]


@contextlib.contextmanager
def spark_counter(
    events: Any, names: Names, unit: Source, max_types: int
) -> Iterator[tuple[Counter, tuple[int, ...]]]:
    """Shuffle the columns of a DataFrame by case, and keep them while they are counted."""
    refuse_stream(events, "discover", "look at events that were collected: `spark.read`")
    frame = _projected(timed_frame(events, unit.times), names)
    lengths, ticks = ladder(tick_of(unit, [read_schema(events)]))
    kept = frame.where(f"{_KEY} IS NOT NULL").repartition(_KEY).persist()
    try:
        with clear_failures():
            seen = _look(frame, kept, names, max_types)
            yield _SparkCounter(kept, _own(names), seen, ticks), lengths
    finally:
        kept.unpersist()


def _own(names: Names) -> Names:
    """Return names of columns that need no quotes, for the tasks."""
    ties = (*(f"_tie{number}" for number in range(len(names.tiebreak))), ARRIVAL)
    return Names(_KEY, "_time", _TYPE, None if names.label is None else _LABEL, ties)


def _projected(events: DataFrame, names: Names) -> DataFrame:
    check_columns(events.columns, names)
    kind = dict(events.dtypes).get(names.label or "", "boolean")
    if kind != "boolean":
        message = f"the label `{names.label}` is of type {kind}, not true or false"
        helps = ("compute a column that is true for the cases that you look for",)
        raise DataError([Diagnostic("E595", message, helps=helps)])
    own = _own(names)
    given = [names.key, names.time, names.type, *([names.label] if names.label else [])]
    called = [own.key, own.time, own.type, *([own.label] if own.label else [])]
    pairs = zip([*given, *names.tiebreak], [*called, *own.tiebreak], strict=False)
    columns = [_column(name).alias(alias) for name, alias in pairs]
    return events.select(*columns, sf.monotonically_increasing_id().alias(ARRIVAL))


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")


def _look(frame: DataFrame, kept: DataFrame, names: Names, max_types: int) -> Seen:
    """Count cases, labels and the types that most cases have."""
    no = sf.lit(False)  # a value
    label = no if names.label is None else sf.coalesce(sf.col(_LABEL), no)
    of_case = kept.groupBy(_KEY).agg(
        sf.bool_or(label).alias("some"), sf.bool_and(label).alias("all"), sf.count("*").alias("n")
    )
    marked, mixed = sf.col("some").cast("int"), (sf.col("some") & ~sf.col("all")).cast("int")
    total = of_case.agg(sf.count("*"), sf.sum(marked), sf.sum(mixed), sf.sum("n")).collect()[0]
    if total[2]:
        message = (
            f"the label `{names.label}` is true for some events of a case and not for others, in "
            f"{total[2]:,} cases"
        )
        helps = ("give all events of a case the same label",)
        raise DataError([Diagnostic("E595", message, helps=helps)])
    kind = sf.col(_TYPE).cast("string").alias("kind")
    having = kept.select(_KEY, kind).where("kind IS NOT NULL").distinct().groupBy("kind").count()
    ranked = having.orderBy(sf.col("count").desc(), "kind")
    types = tuple(row[0] for row in ranked.limit(max_types).collect())
    events = int(total[3] or 0)
    groups = Groups(total[0], total[1] or 0)
    return Seen(types, groups, events, having.count() - len(types), frame.count() - events)


class _SparkCounter:
    """Counts in tasks that hold whole cases."""

    def __init__(
        self, frame: DataFrame, names: Names, seen: Seen, ticks: NDArray[np.int64]
    ) -> None:
        self.seen = seen
        self._frame, self._names, self._ticks = frame, names, ticks

    def facts(self) -> tuple[Facts, Facts]:
        """Count what the forms of Declare need."""
        found = self._sum(
            lambda cases: [np.asarray(one) for both in facts_of(cases) for one in both]
        )
        half = len(Facts._fields)
        return _facts(found[:half]), _facts(found[half:])

    def waits(self, pairs: Pairs) -> Counts:
        """Count the longest waits of pairs of types."""
        ticks = self._ticks
        return self._sum(lambda cases: [count_waits(places_of(cases, ticks), pairs)])[0]

    def longer(self, prefixes: Prefixes) -> Counts:
        """Count sequences with one more type, some of them at a time."""
        ticks, found = self._ticks, []
        for begin in range(0, len(prefixes), PREFIXES):
            some = prefixes[begin : begin + PREFIXES]
            found += self._sum(partial(_count_some, ticks, some))
        return np.concatenate(found)

    def _sum(self, task: Task) -> list[NDArray[np.int64]]:
        """Count in every task, and add up what they send."""
        names, types = self._names, self.seen.types

        def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            held = [batch for batch in batches if len(batch)]
            if held:
                log = read_cases(pa.Table.from_batches(held), names, len(types), types)
                yield _sent(task(log.cases))

        rows = self._frame.mapInArrow(in_task(count), _SENT).collect()
        total: list[NDArray[np.int64]] = []
        for number, row in enumerate(rows):
            counts = _received(bytes(row[0]))
            total = (
                counts
                if not number
                else [one + two for one, two in zip(total, counts, strict=True)]
            )
        return total


def _count_some(ticks: NDArray[np.int64], some: Prefixes, cases: Cases) -> list[Counts]:
    return [count_longer(places_of(cases, ticks), some, cases.kinds)]


def _facts(found: list[NDArray[np.int64]]) -> Facts:
    return Facts(int(found[0]), *found[1:])


def _sent(arrays: list[NDArray[np.int64]]) -> pa.RecordBatch:
    """Pack arrays: an Arrow stream of numbers and of shapes, which nothing can be run from."""
    flat = pa.array([one.ravel().tolist() for one in arrays], pa.list_(pa.int64()))
    shapes = pa.array([list(one.shape) for one in arrays], pa.list_(pa.int64()))
    packed = pa.record_batch({"flat": flat, "shape": shapes})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, packed.schema) as stream:
        stream.write_batch(packed)
    return pa.record_batch({"numbers": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _received(data: bytes) -> list[NDArray[np.int64]]:
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    shapes = table["shape"].to_pylist()
    flat = table["flat"].combine_chunks()
    return [
        np.asarray(flat[place].values, np.int64).reshape(shape)
        for place, shape in enumerate(shapes)
    ]
