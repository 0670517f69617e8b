"""Event stores on Spark: tasks read slices of the replay intervals, and tasks write segments.

A task reads its row groups itself and owns the windows of its range of time, as with other files;
no task reads row groups that the indexes rule out. For an append, tasks write the segments and the
driver commits all of them in one version.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.arrays.noticing import Noticed
from cepheid.decoding import from_json
from cepheid.events.nanoseconds import in_microseconds
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.blobs import Batches
from cepheid.jobs.kind import kind_of, needs_of, task_kind
from cepheid.jobs.owned import Owned
from cepheid.jobs.task_jobs import task_job
from cepheid.jobs.work import Work
from cepheid.kinds.row_pattern.store import STRETCH, by_stretch, in_stretches, plan_clause
from cepheid.plans.needs import Strategy
from cepheid.plans.plan import Plan, WindowKind
from cepheid.runtimes.notices import names_of as names_of_types
from cepheid.runtimes.notices import notice_store, oddities, warn_of
from cepheid.runtimes.spark.batch import noticed, parallelism, run_frame, work_of
from cepheid.runtimes.spark.choice import choose_for_files, facts_of_replay
from cepheid.runtimes.spark.scan import SLICES_PER_TASK
from cepheid.runtimes.store import columns_of, events_of
from cepheid.spark.batches import chunks, in_task
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.notices import unwatched
from cepheid.spark.schema import file_schema, plain_schema, spark_schema_of
from cepheid.spark.size import cores_of, given_tasks
from cepheid.spark.text_times import timed_frame
from cepheid.spark.versions import arrow_schema
from cepheid.spark.whole_frames import refuse_stream
from cepheid.store.arriving import fitted, in_order
from cepheid.store.event_store import EventStore
from cepheid.store.file_system import LocalFiles
from cepheid.store.indexing import Terms
from cepheid.store.manifest import Segment, load_manifest
from cepheid.store.replay_plan import ReplayPlan, full_replay
from cepheid.store.segments import SEGMENT_ROWS, Place, write_segments
from cepheid.store.snapshot import Cover, Interval, Snapshot, complete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.kinds.row_pattern.plan import MatchPlan
    from cepheid.runtimes.local import CompiledQueryLike
    from cepheid.runtimes.spark.costs import Facts

TIME_WINDOWS = (WindowKind.TUMBLING, WindowKind.SLIDING, WindowKind.TRAILING)


class StoreSlice(NamedTuple):
    """A range of time [begin, end) and the intervals that are read for it."""

    begin: int | None
    end: int | None
    cover: Cover


class Version(NamedTuple):
    """A version of a store; each task reads its manifest itself."""

    path: str
    number: int

    def snapshot(self) -> Snapshot:
        """Open the version for reading."""
        folder = Path(self.path)
        return Snapshot(load_manifest(folder, self.number), folder, {})


def run_store(
    compiled: CompiledQueryLike, store: EventStore, spark: SparkSession, method: str | None = None
) -> DataFrame:
    """Run a query over a store with Spark and return its result."""
    snapshot = store.snapshot()
    schema = snapshot.manifest.schema
    plan = compiled.with_schema(schema).plan
    task_kind(plan).check(plan)  # Now, and not by a task.
    replay = kind_of(plan).replay(plan, snapshot, method or "auto")
    if replay.apart:
        replay = full_replay(snapshot, "tasks read the whole history")
    version = Version(str(store.path.resolve()), snapshot.manifest.version)
    ship_kernels(spark)
    needs, whole = needs_of(plan), replay.cover is None and replay.keys is None
    count, strategy = SLICES_PER_TASK * parallelism(spark), None
    in_slices = not (needs.from_start or needs.leads_in)
    if in_slices and needs.files.strategy is Strategy.SCAN_SLICES:
        chosen = choose_for_files(plan, _facts_of(plan, snapshot, replay, spark))
        in_slices = chosen.strategy is Strategy.SCAN_SLICES
        if in_slices:
            count = chosen.slices
        else:
            strategy = chosen.strategy.value
    slices = slices_of(snapshot, plan, replay, count)
    numbers = spark.range(0, len(slices), 1, len(slices))
    if not whole and plan.limit is None:
        # Tasks see a part of the events, but the store knows more.
        known = Noticed(names_of_types([plan]))
        notice_store(plan, snapshot, known)
        warn_of(oddities([plan], known))
    if not in_slices:
        if strategy is not None:
            slices = _cut(*_ranges_and_edges(snapshot, replay, count))
            numbers = spark.range(0, len(slices), 1, len(slices))
        frame = _read_frame(numbers, version, slices, plain_schema(schema))
        with nullcontext() if whole else unwatched():
            return run_frame(compiled, frame, strategy=strategy)
    shown = file_schema(pa.schema([schema.field(n) for n in columns_of(plan, snapshot)]))
    work, results = work_of(plan, shown, 1)
    task = _run_slices(work, version, slices)
    if whole:
        task = noticed(numbers, task, plan, len(slices), all_types=True)
    result = numbers.mapInArrow(task, results)
    return result if plan.limit is None else result.limit(plan.limit)


def _facts_of(plan: Plan, snapshot: Snapshot, replay: ReplayPlan, spark: SparkSession) -> Facts:
    """Collect what decides how the replay of a store is cut: the indexes have left their part."""
    cover = snapshot.clip_cover(replay.cover or Cover.of(Interval()))
    span = int((cover.ends - cover.begins).sum())
    share = replay.groups / max(replay.total, 1)
    rows = int(snapshot.manifest.rows * share)
    groups = max(replay.groups, 1)
    return facts_of_replay(plan, rows, span, groups, cores_of(spark), given_tasks(spark))


def _ranges_and_edges(
    snapshot: Snapshot, replay: ReplayPlan, count: int
) -> tuple[Cover, list[int]]:
    cover = snapshot.clip_cover(replay.cover or Cover.of(Interval()))
    return cover, edges_of(snapshot, cover, count)


def store_frame(store: EventStore, spark: SparkSession, cover: Cover | None = None) -> DataFrame:
    """Read a store as a DataFrame; tasks read the row groups of ranges of time."""
    snapshot = store.snapshot()
    version = Version(str(store.path.resolve()), snapshot.manifest.version)
    ranges = snapshot.clip_cover(cover or Cover.of(Interval()))
    edges = edges_of(snapshot, ranges, SLICES_PER_TASK * parallelism(spark))
    slices = _cut(ranges, edges)
    numbers = spark.range(0, len(slices), 1, len(slices))
    return _read_frame(numbers, version, slices, plain_schema(snapshot.manifest.schema))


def slices_of(snapshot: Snapshot, plan: Plan, replay: ReplayPlan, count: int) -> list[StoreSlice]:
    """Cut the replay intervals into slices of about equal numbers of row groups."""
    needs = needs_of(plan)
    before, after = (0, 0) if needs.leads_in else needs.reach
    return _cut(*_ranges_and_edges(snapshot, replay, count), before, after)


def edges_of(snapshot: Snapshot, cover: Cover, count: int) -> list[int]:
    """Choose times that cut ranges into pieces of about equal numbers of row groups."""
    found = [snapshot.groups_in(segment, cover)[1] for segment in snapshot.manifest.segments]
    first = np.sort(np.concatenate([np.zeros(0, np.int64), *found]))
    count = max(1, min(count, len(first)))
    places = np.arange(1, count) * len(first) // count
    return [int(edge) for edge in np.unique(first[places])] if len(first) else []


def _cut(cover: Cover, edges: list[int], before: int = 0, after: int = 0) -> list[StoreSlice]:
    """Build the slices between edges; each also reads a margin before and after."""
    slices = []
    for begin, end in zip([None, *edges], [*edges, None], strict=True):
        low = None if begin is None else begin - before
        high = None if end is None else end + after
        slices.append(StoreSlice(begin, end, _within(cover, low, high)))
    return slices


def _within(cover: Cover, low: int | None, high: int | None) -> Cover:
    begins, ends = cover
    begins = begins if low is None else np.maximum(begins, low)
    ends = ends if high is None else np.minimum(ends, high)
    some = begins < ends
    return Cover(begins[some], ends[some])


def _run_slices(work: Work, version: Version, slices: list[StoreSlice]) -> Any:
    def run(batches: Batches) -> Batches:
        plan = work.planned()
        for number in _numbers(batches):
            piece = slices[number]
            replay = ReplayPlan(piece.cover, "")
            tables = events_of(version.snapshot(), plan, replay)
            yield from task_job(work).rows(tables, Owned(piece.begin, piece.end), number)

    return in_task(run)


def _read_frame(
    numbers: DataFrame,
    version: Version,
    slices: list[StoreSlice],
    schema: pa.Schema,
    stretches: Cover | None = None,
) -> DataFrame:
    """Read slices as a DataFrame; each slice is a partition sorted by time.

    With ``stretches``, every event has the number of its stretch.
    """
    packed = schema.serialize().to_pybytes()

    def read(batches: Batches) -> Batches:
        wanted = pa.ipc.read_schema(pa.py_buffer(packed))
        snapshot = version.snapshot()
        for number in _numbers(batches):
            for found in snapshot.scan(slices[number].cover, wanted.names):
                whole = snapshot.manifest.schema
                table = in_microseconds(complete(found, whole, wanted.names), wanted)
                if stretches is not None:
                    # The ticks of the stretches are those of the store.
                    own = in_stretches(found, stretches, snapshot.manifest.time)
                    table = table.append_column(STRETCH, own.column(STRETCH))
                yield from table.combine_chunks().to_batches()

    shown = schema if stretches is None else schema.append(pa.field(STRETCH, pa.int64()))
    return numbers.mapInArrow(in_task(read), spark_schema_of(shown))


def clause_frame(
    store: EventStore, spark: SparkSession, plan: MatchPlan, method: str | None = None
) -> tuple[DataFrame, MatchPlan]:
    """Read the events that a clause needs as a DataFrame, with the plan that matches them.

    Stretches become keys of the shuffle, and no slice ends within one.
    """
    snapshot = store.snapshot()
    replay = plan_clause(snapshot, plan, method, by_key=False)
    schema, time = snapshot.manifest.schema, snapshot.manifest.time
    names = list(dict.fromkeys([*plan.read_columns, time]))
    cover = snapshot.clip_cover(replay.cover or Cover.of(Interval()))
    edges = edges_of(snapshot, cover, SLICES_PER_TASK * parallelism(spark))
    several = len(cover.begins) > 1
    if several:
        places = np.searchsorted(cover.begins, edges, side="right") - 1
        edges = [int(edge) for edge in np.unique(cover.begins[np.maximum(places, 0)])]
    slices = _cut(cover, edges)
    version = Version(str(store.path.resolve()), snapshot.manifest.version)
    numbers = spark.range(0, len(slices), 1, len(slices))
    shown = plain_schema(pa.schema([schema.field(name) for name in names]))
    frame = _read_frame(numbers, version, slices, shown, cover if several else None)
    return frame, by_stretch(plan) if several else plan


def _numbers(batches: Batches) -> list[int]:
    return [int(n) for batch in batches for n in batch.column(0).to_numpy()]


# ---------------------------------------------------------------------------------------
# Appending


def append_frame(
    store: EventStore,
    frame: DataFrame,
    times: TextTimes,
    *,
    source: str = "",
    batch: int | None = None,
) -> int:
    """Append the events of a DataFrame; tasks write segments, and one commit adds them all.

    Raises
    ------
    UnsupportedError
        E405 if the DataFrame is a stream.
    """
    way_out = "store its batches: `events.writeStream.foreachBatch(store.sink('name')).start()`"
    refuse_stream(frame, "`append`", way_out)
    if batch is not None and store.has_batch(source, batch):
        return 0
    frame = timed_frame(frame, times)
    empty = arrow_schema(frame.schema).empty_table()
    path = str(store.path.resolve())
    time = f"`{store.time.replace('`', '``')}`"
    # Ranges of time, so that segments do not overlap.
    count = parallelism(frame.sparkSession)
    ordered = frame.repartitionByRange(count, sf.col(time)).sortWithinPartitions(time)
    with store.writing() as writer:
        terms = store.terms(writer)
        _, schema = fitted(empty, terms.schema)
        task = _write_segments(path, store.time, terms, writer.key)
        rows = ordered.mapInArrow(task, "segment binary").collect()
        found = [from_json(bytes(row[0]), Segment) for row in rows]
        found.sort(key=lambda segment: segment.first)
        return store.add_segments(found, schema, terms, writer, source=source, batch=batch)


def _write_segments(path: str, time: str, terms: Terms, writer: str) -> Any:
    packed = None if terms.schema is None else terms.schema.serialize().to_pybytes()
    floor, indexed = terms.floor, terms.indexed

    def write(batches: Batches) -> Batches:
        schema = None if packed is None else pa.ipc.read_schema(pa.py_buffer(packed))
        place = Place(LocalFiles(), Path(path), indexed, writer)
        for table in chunks(batches, SEGMENT_ROWS):
            events, times = in_order(fitted(table, schema)[0], time)
            begin = 0 if floor is None else int(np.searchsorted(times, floor, side="left"))
            written = write_segments(place, events.slice(begin), times[begin:])
            texts = [msgspec.json.encode(segment) for segment in written]
            yield pa.record_batch({"segment": pa.array(texts, pa.binary())})

    return in_task(write)
