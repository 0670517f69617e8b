"""Run queries over Spark DataFrames lazily: a DataFrame in, a DataFrame out, nothing collected.

``plans/needs.py`` lists the possible strategies; the profile of the partitions decides among them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepheid.arrays.noticing import Noticed
from cepheid.jobs.blobs import BLOB_DDL
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.task_jobs import has_merge
from cepheid.jobs.work import Work
from cepheid.kinds.trend.spark_filter import event_filter
from cepheid.options import FILE_STRATEGIES, one_of, refuse
from cepheid.plans.needs import Strategy, StrategyChoice
from cepheid.plans.plan import Plan
from cepheid.runtimes.notices import names_of as names_of_types
from cepheid.runtimes.notices import oddities
from cepheid.runtimes.spark import tasks
from cepheid.runtimes.spark.choice import Chosen, choose_for_frame, facts_of_source
from cepheid.runtimes.spark.costs import REACHES_MIN, all_read_all
from cepheid.runtimes.spark.event_source import EventSource
from cepheid.runtimes.spark.key_spread import Spread, spread_keys
from cepheid.runtimes.spark.partition_profile import BLOCK_ROWS, Profile, profile_partitions
from cepheid.runtimes.spark.tasks import run_times
from cepheid.runtimes.task_rates import read_task_rates
from cepheid.spark.batches import Task
from cepheid.spark.frame_files import numbered
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.notices import noticing_task
from cepheid.spark.schema import (
    alias_of,
    arrow_schema_of,
    columns_of,
    names_of,
    result_schema_of,
    spark_schema_of,
)
from cepheid.spark.size import cores_of, given_tasks
from cepheid.spark.text_times import timed_frame
from cepheid.spark.versions import repartition_by_id
from cepheid.spark.whole_frames import refuse_stream_of_query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike


def run_frame(
    compiled: CompiledQueryLike, frame: DataFrame, *, strategy: str | None = None
) -> DataFrame:
    """Run a query over a DataFrame and return its result, which Spark computes lazily.

    Raises
    ------
    ValueError
        If the strategy is unknown, or not possible for the query.
    UnsupportedError
        E405 if the DataFrame is a stream.
    """
    refuse_stream_of_query(frame, compiled.plan.text)
    frame = timed_frame(frame, compiled.times)
    plan = compiled.with_schema(frame.schema).plan
    result = _run_plan(plan, frame, strategy)
    return result if plan.limit is None else result.limit(plan.limit)


def _run_plan(plan: Plan, frame: DataFrame, strategy: str | None) -> DataFrame:
    task_kind(plan).check(plan)  # Now, and not by a task.
    choice = _choose(plan, strategy)
    projected = project(frame, plan)
    source = EventSource.of(frame, projected, plan)
    ship_kernels(frame.sparkSession)
    if strategy is None and choice.strategy is not Strategy.ONE_TASK:
        return _run_chosen(source, plan, choose_for_frame(plan, source))
    count = parallelism(frame.sparkSession)
    if choice.strategy in (Strategy.COMBINE, Strategy.TIME_SHUFFLE):
        profile = profile_partitions(projected, plan, count)
        chosen = Chosen(choice.strategy, count, profile)
    else:
        spread = spread_keys(projected, plan, count, source.counts)
        chosen = Chosen(choice.strategy, count, None, spread)
    return _run_chosen(source, plan, chosen)


def _run_chosen(source: EventSource, plan: Plan, chosen: Chosen) -> DataFrame:
    profile, count = chosen.profile, chosen.tasks
    if profile is None or chosen.strategy not in (Strategy.COMBINE, Strategy.TIME_SHUFFLE):
        return run_key_shuffle(source, plan, count, chosen.spread)
    if chosen.strategy is Strategy.TIME_SHUFFLE:
        return run_window_shuffle(source, plan, profile)
    if profile.is_empty:
        return run_key_shuffle(source, plan, 1)
    if profile.ranges is not None:
        return run_combine(source.projected, plan, profile, count)
    return run_time_shuffle(source, plan, profile, count)


def _choose(plan: Plan, strategy: str | None) -> StrategyChoice:
    if strategy is None:
        choice = needs_of(plan).frames
        if choice.strategy is Strategy.ONE_TASK:
            warnings.warn(f"one task runs the whole query: {choice.reason}", stacklevel=6)
        return choice
    one_of("strategy", strategy, FILE_STRATEGIES)
    wanted = Strategy(strategy)
    if wanted is Strategy.COMBINE and (why := needs_of(plan).not_composed):
        message = f"the strategy `{wanted.value}` cannot run this query: {why}"
        refuse("E591", message)
    if wanted is Strategy.TIME_SHUFFLE and (why := needs_of(plan).not_by_time):
        message = f"the strategy `{wanted.value}` cannot run this query: {why}"
        refuse("E591", message)
    if wanted is Strategy.SCAN_SLICES:
        message = "the strategy `scan slices` reads files: pass their path instead of a DataFrame"
        refuse("E591", message)
    return StrategyChoice(wanted, "asked for")


def parallelism(spark: SparkSession) -> int:
    """Choose the number of concurrent tasks: the shuffle partitions, if the user set them."""
    return given_tasks(spark) or cores_of(spark)


def project(frame: DataFrame, plan: Plan) -> DataFrame:
    """Select the columns that a plan reads, and filter out events that cannot affect the result."""
    columns = columns_of(frame, plan)
    condition = event_filter(plan, columns)
    kept = frame if condition is None else frame.filter(condition)
    names = names_of(plan, frame.columns)
    return kept.select(*(columns[name][0].alias(alias_of(name)) for name in names))


def work_of(plan: Plan, schema: pa.Schema, buckets: int) -> tuple[Work, Any]:
    """Build the task description, and the Spark schema of the results."""
    results = result_schema_of(plan, schema)
    return Work.of(plan, schema, results, buckets), spark_schema_of(results)


def _schema_of(projected: DataFrame, plan: Plan) -> pa.Schema:
    return arrow_schema_of(projected, names_of(plan, projected.columns))


def noticed(
    frame: DataFrame,
    task: Task,
    plan: Plan | Sequence[Plan],
    wanted: Iterable[int] | int,
    *,
    all_types: bool = False,
) -> Task:
    """Let a task notice odd events; ``wanted`` are the partitions that read all, or their number.

    Of a DataFrame, Spark filters events of other types before a task sees them, so their names are
    not known; of files tasks read ``all_types``. The task may run several plans.
    """
    plans = [plan] if isinstance(plan, Plan) else plan
    if any(one.limit is not None for one in plans):
        return task
    partitions = range(wanted) if isinstance(wanted, int) else wanted

    def judge(found: Noticed) -> list[str]:
        return oddities(plans, found, all_types=all_types)

    return noticing_task(frame.sparkSession, task, partitions, names_of_types(plans), judge)


def exchange(blobs: DataFrame, buckets: int) -> DataFrame:
    """Shuffle blobs to their tasks, sorted by time in each."""
    there = repartition_by_id(blobs, buckets, "bucket")
    return there.sortWithinPartitions("begin", "seq")


def run_key_shuffle(
    source: EventSource, plan: Plan, count: int, spread: Spread | None = None
) -> DataFrame:
    """Bring the events of a key to one task, and run the query on every bucket.

    Tasks read all files, each for its own keys, where that is faster than to send the events.
    """
    names = needs_of(plan).keys
    buckets = count if names else 1
    work, schema = work_of(plan, _schema_of(source.projected, plan), buckets)
    groups = source.groups(plan)
    if all_read_all(facts_of_source(plan, source, groups), buckets, read_task_rates()):
        arrived = numbered(source.projected, buckets)
        events = source.own_events(plan, groups, names, buckets, spread)
    else:
        send = tasks.send_events(work)
        sent = source.sent_by_keys(send, names, buckets, spread) if names else source.sent(send)
        arrived, events = exchange(sent, buckets), tasks.events_of_blobs(work)
    if not has_merge(work):
        whole = noticed(arrived, tasks.run_bucket(work, events), plan, buckets)
        return arrived.mapInArrow(whole, schema)
    part = noticed(arrived, tasks.run_part(work, events), plan, buckets)
    partial = arrived.mapInArrow(part, BLOB_DDL)
    return exchange(partial, buckets).mapInArrow(tasks.merge_rows(work), schema)


def run_combine(projected: DataFrame, plan: Plan, profile: Profile, count: int) -> DataFrame:
    """Summarise every partition, which is a range of time, and multiply the summaries."""
    assert profile.ranges is not None, "partitions that are ranges of time"
    work, schema = work_of(plan, _schema_of(projected, plan), _composers(plan, count))
    whole = tasks.summarise_partition(work, profile.ranges, BLOCK_ROWS)
    summarise = noticed(projected, whole, plan, profile.ranges.first)
    stretches = projected.mapInArrow(summarise, BLOB_DDL)
    arrived = exchange(stretches, work.buckets)
    return arrived.mapInArrow(tasks.compose_stretches(work), schema)


def run_time_shuffle(source: EventSource, plan: Plan, profile: Profile, count: int) -> DataFrame:
    """Shuffle the events by time, summarise every range, and multiply the summaries."""
    edges, read = profile.edges, _schema_of(source.projected, plan)
    work, schema = work_of(plan, read, len(edges) + 1)
    sent = source.sent(tasks.send_events(work, edges))
    composing, _ = work_of(plan, read, _composers(plan, count))
    summarise = noticed(sent, tasks.summarise_bucket(composing), plan, work.buckets)
    stretches = exchange(sent, work.buckets).mapInArrow(summarise, BLOB_DDL)
    arrived = exchange(stretches, composing.buckets)
    return arrived.mapInArrow(tasks.compose_stretches(composing), schema)


def run_window_shuffle(source: EventSource, plan: Plan, profile: Profile) -> DataFrame:
    """Shuffle the events by time; a task owns the windows that start in its range."""
    cuts = _edges_apart(profile, plan)
    work, schema = work_of(plan, _schema_of(source.projected, plan), len(cuts) + 1)
    sent = source.sent(tasks.send_events(work, cuts, needs_of(plan).reach))
    task = noticed(sent, run_times(work, cuts), plan, work.buckets)
    return exchange(sent, work.buckets).mapInArrow(task, schema)


def _edges_apart(profile: Profile, plan: Plan) -> tuple[int, ...]:
    """Choose edges far enough apart: shorter ranges would be read by two tasks, nearly whole."""
    before, after = needs_of(plan).reach
    edges: list[int] = []
    for edge in profile.edges:
        if not edges or edge - edges[-1] >= REACHES_MIN * (before + after):
            edges.append(edge)
    return tuple(edges)


def _composers(plan: Plan, count: int) -> int:
    return count if plan.partition.group_by else 1
