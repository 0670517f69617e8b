"""Run queries over files on Spark: tasks get slices of time and read the files themselves.

No event passes through the JVM. With a window, a task owns the windows that start in its range and
reads on until they end; without one, it summarises its range, and the summaries are multiplied.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cepheid.events.files import content_of
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.blobs import BLOB_DDL, Batches
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.task_jobs import composing
from cepheid.jobs.work import Work
from cepheid.options import FILE_STRATEGIES, one_of, refuse
from cepheid.plans.needs import Strategy
from cepheid.plans.plan import Plan
from cepheid.runtimes.scan import (
    UNIT_ROWS_MAX,
    Slice,
    Unit,
    cut,
    find_paths,
    flat_schema,
    read_footers,
    units_of,
)
from cepheid.runtimes.scan_read import Reader
from cepheid.runtimes.spark import tasks
from cepheid.runtimes.spark.batch import (
    exchange,
    noticed,
    parallelism,
    run_frame,
    work_of,
)
from cepheid.runtimes.spark.choice import choose_for_files, facts_of_units
from cepheid.runtimes.spark.costs import composes_slices
from cepheid.runtimes.spark.tasks import run_slice
from cepheid.spark.batches import in_task
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.schema import file_schema
from cepheid.spark.size import cores_of, given_tasks
from cepheid.spark.text_times import with_text_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike

SLICES_PER_TASK = 4
"""Slices of an event store for each core: enough to even out, few enough to hide their start."""


def run_path(
    compiled: CompiledQueryLike, pattern: str, spark: SparkSession, *, strategy: str | None = None
) -> DataFrame:
    """Run a query over files with Spark and return its result.

    Raises
    ------
    DataError
        E501 if there is no such file or one cannot be read.
    ValueError
        If the strategy is unknown, or not possible for the query.
    """
    if strategy is not None:
        one_of("strategy", strategy, FILE_STRATEGIES)
    wanted = None if strategy is None else Strategy(strategy)
    paths = find_paths(pattern)
    if wanted not in (None, Strategy.SCAN_SLICES):
        return run_frame(compiled, read_frame(spark, paths, compiled.times), strategy=strategy)
    why = _why_not_scanned(paths)
    if why:
        return _fall_back(compiled, spark, paths, why, wanted)
    footers = read_footers(paths, compiled.plan.time)
    plan = compiled.with_schema(footers.schema).plan
    task_kind(plan).check(plan)  # Now, and not by a task.
    choice = needs_of(plan).files
    if choice.strategy is not Strategy.SCAN_SLICES:
        return _fall_back(compiled, spark, paths, choice.reason, wanted, notice=False)
    if footers.groups is None:
        why = f"their footers do not contain the times of `{plan.time}`"
        return _fall_back(compiled, spark, paths, why, wanted)
    units = units_of(footers.groups, apart=bool(plan.tiebreak))
    largest = max((unit.rows for unit in units if len(unit.groups) > 1), default=0)
    if largest > UNIT_ROWS_MAX:
        why = f"{largest:,} events in row groups overlap in time"
        return _fall_back(compiled, spark, paths, why, wanted)
    facts = facts_of_units(units, plan, cores_of(spark), given_tasks(spark))
    chosen = choose_for_files(plan, facts)
    if wanted is None and chosen.strategy is not Strategy.SCAN_SLICES:
        return run_frame(compiled, read_frame(spark, paths, compiled.times))
    names = plan.columns if plan.columns is not None else footers.schema.names
    schema = file_schema(flat_schema(footers.schema, names))
    result = _scan(spark, plan, units, schema, chosen.slices)
    return result if plan.limit is None else result.limit(plan.limit)


def read_frame(spark: SparkSession, paths: list[str], times: TextTimes | None = None) -> DataFrame:
    """Read files as a DataFrame; a time column that is text stays text."""
    content = content_of(paths[0])
    if content in ("csv", "tsv"):
        separator = "\t" if content == "tsv" else ","
        guessed = spark.read.csv(paths, header=True, inferSchema=True, sep=separator)
        kept = guessed.schema if times is None else with_text_time(guessed.schema, times)
        if kept == guessed.schema:
            return guessed
        return spark.read.csv(paths, header=True, schema=kept, sep=separator)
    if content == "json":
        return spark.read.json(paths)
    return spark.read.parquet(*paths)


def _why_not_scanned(paths: list[str]) -> str:
    others = [path for path in paths if not path.lower().endswith((".parquet", ".pq"))]
    return f"`{others[0]}` is no Parquet file" if others else ""


def _fall_back(
    compiled: CompiledQueryLike,
    spark: SparkSession,
    paths: list[str],
    why: str,
    wanted: Strategy | None,
    *,
    notice: bool = True,
) -> DataFrame:
    if wanted is Strategy.SCAN_SLICES:
        refuse("E591", f"the strategy `scan slices` cannot read these files: {why}")
    if notice:
        warnings.warn(f"the files are not read in slices of time: {why}", stacklevel=4)
    return run_frame(compiled, read_frame(spark, paths, compiled.times))


def _scan(
    spark: SparkSession, plan: Plan, units: list[Unit], schema: Any, wanted: int
) -> DataFrame:
    ship_kernels(spark)
    count = parallelism(spark)
    needs = needs_of(plan)
    before, after = needs.reach
    span = units[-1].last - units[0].first + 1 if units else 0
    composed = composes_slices(needs, span, count)
    if composed:
        before = after = 0
    slices = [Slice(None, None, ())]
    if units:
        one_more = not composed and needs.leads_in
        slices = cut(units, wanted, before=before, after=after, event_before=one_more)
    numbers = spark.range(0, len(slices), 1, len(slices))
    if composed:
        work, results = work_of(plan, schema, count if plan.partition.group_by else 1)
        summarise = noticed(
            numbers, _summarise_slice(work, slices), plan, len(slices), all_types=True
        )
        stretches = numbers.mapInArrow(summarise, BLOB_DDL)
        arrived = exchange(stretches, work.buckets)
        return arrived.mapInArrow(tasks.compose_stretches(work), results)
    work, results = work_of(plan, schema, 1)
    task = noticed(numbers, _run_slices(work, slices), plan, len(slices), all_types=True)
    return numbers.mapInArrow(task, results)


Task = Callable[[Batches], Batches]


def _run_slices(work: Work, slices: list[Slice]) -> Task:
    def run(batches: Batches) -> Batches:
        for number in _numbers(batches):
            yield from run_slice(work, slices[number], number)

    return in_task(run)


def _summarise_slice(work: Work, slices: list[Slice]) -> Task:
    def run(batches: Batches) -> Batches:
        for number in _numbers(batches):
            reader = Reader(work.planned(), work.schema)
            yield from composing(work).summarise(reader.events(slices[number]), number)

    return in_task(run)


def _numbers(batches: Batches) -> list[int]:
    return [int(n) for batch in batches for n in batch.column(0).to_numpy()]
