"""Choose the strategy of a query over a DataFrame or files by its estimated seconds.

Facts cost time too. Spark's own figure of the size of a DataFrame is free, and small ones run
without a pass over times or keys; of larger ones the times are looked at, and the keys where a
shuffle by key looks best so far.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Strategy
from cepheid.runtimes import scan
from cepheid.runtimes.spark.costs import Estimate, Facts, composes_slices, estimate
from cepheid.runtimes.spark.key_spread import Spread, spread_keys
from cepheid.runtimes.spark.partition_profile import Profile, profile_partitions
from cepheid.runtimes.task_rates import are_measured, read_task_rates
from cepheid.spark.size import cores_of, given_tasks, known_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.plans.plan import Plan

log = logging.getLogger("cepheid")

VALUE_BYTES = 4
"""Bytes of a value in a file, if nothing else is known."""

DOUBT = 1.5
"""Estimates of reading files in Python and in the JVM are right within this factor."""

UNKNOWN_ROWS = 100_000_000
UNKNOWN_SPAN = 1 << 60


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


def choose_for_frame(plan: Plan, projected: DataFrame) -> Chosen:
    """Choose the strategy for a DataFrame; looks at times and keys where that is worth it."""
    rates = read_task_rates()
    facts = guessed(projected.sparkSession, known_bytes(projected), len(projected.columns))
    profile: Profile | None = None
    spread: Spread | None = None
    while True:
        found = estimate(plan, facts, rates)
        best = found[0]
        if best.strategy is Strategy.KEY_SHUFFLE:
            if best.tasks == 1 or spread is not None:
                break
            spread = spread_keys(projected, plan, best.tasks)
            facts = facts._replace(ratio=spread.ratio, spread=best.tasks)
            continue
        if profile is not None:
            break
        profile = profile_partitions(projected, plan, best.tasks)
        if profile.is_empty:
            return _told(Chosen(Strategy.KEY_SHUFFLE, 1), found, facts)
        facts = _profiled(facts, profile)
    if profile is not None and best.strategy is not Strategy.KEY_SHUFFLE:
        profile = profile.cut(best.tasks)
    kept = spread if best.tasks > 1 else None
    return _told(Chosen(best.strategy, best.tasks, profile, kept), found, facts)


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
    columns = len(plan.columns) if plan.columns is not None else 8
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


def choose_for_files(plan: Plan, facts: Facts) -> Chosen:
    """Choose the strategy for files whose times are known.

    Other strategies read the files through the JVM, which must be worth it beyond doubt.
    """
    found = estimate(plan, facts, read_task_rates())
    scan_slices = [one for one in found if one.strategy is Strategy.SCAN_SLICES]
    if scan_slices and scan_slices[0].seconds < DOUBT * found[0].seconds:
        found = [*scan_slices, *(one for one in found if one is not scan_slices[0])]
    return _told(Chosen(found[0].strategy, found[0].tasks), found, facts)


def _told(chosen: Chosen, found: list[Estimate], facts: Facts) -> Chosen:
    told = [f"{told_facts(facts)}: {found[0]}", *map(_short, found[1:])]
    log.info("%s", "; ".join(told))
    return chosen._replace(estimates=tuple(found), facts=facts)


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
