"""Explain in words which strategy is chosen for given events, and the seconds of all others."""

from __future__ import annotations

import os
from os import fspath
from typing import TYPE_CHECKING, Any

from cepheid.jobs.explain_parts import draw_sections
from cepheid.jobs.kind import needs_of
from cepheid.options import Held, holder_of, unused
from cepheid.plans.needs import Strategy
from cepheid.runtimes.scan import find_paths, read_footers, units_of
from cepheid.runtimes.spark.batch import project
from cepheid.runtimes.spark.choice import (
    Chosen,
    choose_for_files,
    choose_for_frame,
    facts_of_units,
    told_facts,
)
from cepheid.runtimes.spark.event_source import EventSource
from cepheid.runtimes.spark.scan import read_frame
from cepheid.spark.size import cores_of, given_tasks
from cepheid.spark.text_times import timed_frame

if TYPE_CHECKING:
    from cepheid.runtimes.local import CompiledQueryLike


def explain_costs(query: CompiledQueryLike, events: Any, spark: Any) -> str:
    """Explain the choice for a DataFrame, or for files; Parquet needs no session."""
    chosen = None
    if holder_of(events) is Held.FILES:
        paths = find_paths(fspath(events))
        chosen = _of_footers(query, paths, spark)
        if chosen is None:
            if spark is None:
                why = "the footers of these files do not decide how Spark reads them"
                unused("events", why, "pass a Spark session too: `spark=spark`")
            events = read_frame(spark, paths, query.times)
    if chosen is None:
        frame = timed_frame(events, query.times)
        plan = query.with_schema(frame.schema).plan
        if needs_of(plan).frames.strategy is Strategy.ONE_TASK:
            return draw_sections("costs", [("one task", [needs_of(plan).frames.reason])])
        chosen = choose_for_frame(plan, EventSource.of(frame, project(frame, plan), plan))
    return told_costs(chosen)


def _of_footers(query: CompiledQueryLike, paths: list[str], spark: Any) -> Chosen | None:
    """Choose by the footers of Parquet files; None if events are read through Spark."""
    if not all(path.lower().endswith((".parquet", ".pq")) for path in paths):
        return None
    footers = read_footers(paths, query.plan.time)
    plan = query.with_schema(footers.schema).plan
    if footers.groups is None or needs_of(plan).files.strategy is not Strategy.SCAN_SLICES:
        return None
    units = units_of(footers.groups, apart=bool(plan.tiebreak))
    cores = os.cpu_count() or 1 if spark is None else cores_of(spark)
    given = None if spark is None else given_tasks(spark)
    chosen = choose_for_files(plan, facts_of_units(units, plan, cores, given))
    return chosen if chosen.strategy is Strategy.SCAN_SLICES or spark is None else None


def told_costs(chosen: Chosen) -> str:
    """Describe a choice and the seconds of the other strategies."""
    assert chosen.facts is not None, "there are estimates"
    first, *rest = map(str, chosen.estimates)
    sections = [("chosen", [first]), *([("others", rest)] if rest else [])]
    return draw_sections(f"costs  {told_facts(chosen.facts)}", sections)
