"""Choose the strategy of a query over a DataFrame or files by its estimated seconds.

Facts cost time too. The footers of the files beneath a DataFrame, or else Spark's own figure of
its size, are nearly free, and small ones run without a pass over times or keys; of larger ones the
times are looked at, and the keys where a shuffle by key looks best so far.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Strategy
from cepheid.runtimes import scan
from cepheid.runtimes.spark.costs import Estimate, Facts, composes_slices, estimate
from cepheid.runtimes.spark.event_source import EventSource
from cepheid.runtimes.spark.key_spread import Spread, spread_keys
from cepheid.runtimes.spark.partition_profile import (
    Profile,
    profile_of_footers,
    profile_partitions,
)
from cepheid.runtimes.task_rates import are_measured, read_task_rates
from cepheid.runtimes.task_runs import note_run, read_corrections
from cepheid.spark.size import cores_of, given_tasks, known_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cepheid.plans.plan import Plan

log = logging.getLogger("cepheid")

VALUE_BYTES = 4
"""Bytes of a value in a file, if nothing else is known."""

DOUBT = 1.5
"""Estimates of reading files in Python and in the JVM are right within this factor."""

UNKNOWN_ROWS = 100_000_000
UNKNOWN_SPAN = 1 << 60
UNKNOWN_COLUMNS = 8


class Chosen(NamedTuple):
    """The chosen strategy, what was found on the way, and the estimates behind it."""

    strategy: Strategy
    tasks: int
    profile: Profile | None = None
    spread: Spread | None = None
    estimates: tuple[Estimate, ...] = ()
    facts: Facts | None = None

    @property
    def slices(self) -> int:
        """Return the number of slices that files are cut into."""
        found = [one.tasks for one in self.estimates if one.strategy is Strategy.SCAN_SLICES]
        return found[0] if found else self.tasks


class MeasuredRun:
    """The last choice inside of a block, and the seconds from there to the end of the block."""

    def __init__(self) -> None:
        self.chosen: Chosen | None = None
        self.begun = self.seconds = 0.0


_RUN: ContextVar[MeasuredRun | None] = ContextVar("cepheid_measured_run", default=None)


@contextmanager
def measured_run() -> Iterator[MeasuredRun]:
    """Measure a run inside of a block, to its last row, and correct later estimates by it."""
    run = MeasuredRun()
    token = _RUN.set(run)
    try:
        yield run
    finally:
        _RUN.reset(token)
    if run.chosen is not None:
        run.seconds = time.perf_counter() - run.begun
        best = run.chosen.estimates[0]
        # What is estimated without a correction is compared, else it would be corrected twice.
        note_run(best.strategy.value, best.seconds / best.factor, run.seconds)


def choose_for_frame(plan: Plan, source: EventSource) -> Chosen:
    """Choose the strategy for a DataFrame; looks at times and keys where that is worth it."""
    rates, measured, projected = read_task_rates(), read_corrections(), source.projected
    groups = source.groups(plan)
    facts = _dated(facts_of_source(plan, source, groups), groups, plan)
    profile: Profile | None = None
    spread: Spread | None = None
    while True:
        found = estimate(plan, facts, rates, measured)
        best = found[0]
        if best.strategy is Strategy.KEY_SHUFFLE:
            if best.tasks == 1 or spread is not None:
                break
            spread = spread_keys(projected, plan, best.tasks, source.counts)
            facts = facts._replace(ratio=spread.ratio, spread=best.tasks)
            continue
        if profile is not None:
            break
        if best.strategy is Strategy.TIME_SHUFFLE and facts.dated:
            profile = profile_of_footers(groups)
            break
        profile = profile_partitions(projected, plan, best.tasks)
        if profile.is_empty:
            return _told(Chosen(Strategy.KEY_SHUFFLE, 1), found, facts)
        facts = _profiled(facts, profile)
    if profile is not None and best.strategy is not Strategy.KEY_SHUFFLE:
        profile = profile.cut(best.tasks)
    kept = spread if best.tasks > 1 else None
    return _told(Chosen(best.strategy, best.tasks, profile, kept), found, facts)


def facts_of_source(plan: Plan, source: EventSource, groups: Sequence[scan.RowGroup]) -> Facts:
    """Collect the facts that Spark knows, or that the files beneath a DataFrame tell."""
    size = known_bytes(source.projected) if source.files is None else None
    facts = guessed(source.projected.sparkSession, size, len(source.projected.columns))
    if source.files is None:
        return facts
    keeps = source.keeps(needs_of(plan).keys, groups)
    return facts._replace(rows=source.files.rows, parts=len(source.files.parts), keeps=keeps)


def guessed(spark: SparkSession, size: int | None, columns: int) -> Facts:
    """Guess facts from the size of a DataFrame; what is not known favours looking."""
    cores = cores_of(spark)
    return Facts(
        rows=UNKNOWN_ROWS if size is None else size // (VALUE_BYTES * columns) + 1,
        columns=columns,
        span=UNKNOWN_SPAN,
        cores=cores,
        given=given_tasks(spark),
        partitions=cores,
        in_order=True,
        profiled=False,
    )


def _dated(facts: Facts, groups: Sequence[scan.RowGroup], plan: Plan) -> Facts:
    """Take the times of events from footers."""
    if not groups:
        return facts
    units = scan.units_of(list(groups), apart=bool(plan.tiebreak))
    # Spark may still put files together that are not neighbours; a pass would tell.
    in_order = all(len(unit.groups) == 1 for unit in units)
    span = units[-1].last - units[0].first + 1
    return facts._replace(span=span, in_order=in_order, dated=True)


def _profiled(facts: Facts, profile: Profile) -> Facts:
    return facts._replace(
        rows=profile.rows,
        span=profile.span,
        partitions=profile.partitions,
        in_order=profile.ranges is not None,
        pairs=profile.pairs,
        profiled=True,
    )


def facts_of_units(units: list[scan.Unit], plan: Plan, cores: int, given: int | None) -> Facts:
    """Collect the facts that the footers of files tell."""
    rows = sum(unit.rows for unit in units)
    span = units[-1].last - units[0].first + 1 if units else 1
    needs = needs_of(plan)
    reach = 0 if composes_slices(needs, span, given or cores) else sum(needs.reach)
    most = span // (scan.SLICE_REACHES * reach) if reach else len(units)
    slices = max(1, min(len(units), int(most), rows // scan.SLICE_ROWS_MIN + 1))
    columns = len(plan.columns) if plan.columns is not None else UNKNOWN_COLUMNS
    return Facts(
        rows=rows,
        columns=columns,
        span=span,
        cores=cores,
        given=given,
        partitions=cores,
        slices=slices,
        profiled=False,
    )


def facts_of_replay(
    plan: Plan, rows: int, span: int, groups: int, cores: int, given: int | None
) -> Facts:
    """Collect the facts about what is replayed of an event store, after its indexes are read."""
    reach = sum(needs_of(plan).reach)
    most = span // (scan.SLICE_REACHES * reach) if reach else groups
    return Facts(
        rows=rows,
        columns=len(plan.columns) if plan.columns is not None else UNKNOWN_COLUMNS,
        span=span,
        cores=cores,
        given=given,
        partitions=given or cores,
        slices=max(1, min(groups, int(most))),
        composes=False,
        profiled=False,
    )


def choose_for_files(plan: Plan, facts: Facts) -> Chosen:
    """Choose the strategy for files, or for the replay of a store, whose times are known.

    Other strategies read the events through the JVM, which must be worth it beyond doubt.
    """
    found = estimate(plan, facts, read_task_rates(), read_corrections())
    scan_slices = [one for one in found if one.strategy is Strategy.SCAN_SLICES]
    if scan_slices and scan_slices[0].seconds < DOUBT * found[0].seconds:
        found = [*scan_slices, *(one for one in found if one is not scan_slices[0])]
    return _told(Chosen(found[0].strategy, found[0].tasks), found, facts)


def _told(chosen: Chosen, found: list[Estimate], facts: Facts) -> Chosen:
    told = [f"{told_facts(facts)}: {found[0]}", *map(_short, found[1:])]
    log.info("%s", "; ".join(told))
    chosen = chosen._replace(estimates=tuple(found), facts=facts)
    run = _RUN.get()
    if run is not None:
        run.chosen, run.begun = chosen, time.perf_counter()
    return chosen


def _short(one: Estimate) -> str:
    return f"{one.strategy.value}: {one.seconds:.2f} s"


def told_events(facts: Facts) -> str:
    """Describe the events of facts in words."""
    if facts.rows == UNKNOWN_ROWS:
        return "events of unknown number"
    return f"about {facts.rows:,} events"


def told_facts(facts: Facts) -> str:
    """Describe the facts behind estimates in words."""
    rates = "figures of this machine" if are_measured() else "default figures"
    return f"{told_events(facts)}, {facts.cores} cores, {rates} (`cepheid calibrate`)"
