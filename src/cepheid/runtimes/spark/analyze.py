"""Run a query or a workload on Spark to report events, rows and seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from statistics import median
from typing import Any

from pyspark.sql import functions as sf

from cepheid import runtimes
from cepheid.jobs.analysis import LIVE, Analysis
from cepheid.jobs.explain_parts import Section, draw_sections
from cepheid.jobs.kind import kind_of
from cepheid.jobs.why import amount, number
from cepheid.kinds.workload.combine_results import QUERY
from cepheid.runtimes.analyze import kept_events
from cepheid.runtimes.spark.choice import MeasuredRun, measured_run
from cepheid.runtimes.spark.decisions import decided
from cepheid.runtimes.spark.stream import METRICS
from cepheid.runtimes.spark.why import frames_of
from cepheid.runtimes.why import question_of

SUMS = (("seen", "read"), ("events", "kept"), ("late", "late"), ("shed", "shed"))
"""Numbers of micro-batches that are added up, and their words."""
STATE = "tasks keep the state; its size and their bytes are on Spark's web page"


def analyze_on_spark(query: Any, streams: Sequence[Any], spark: Any) -> Analysis:
    """Run a query on Spark, and report what it did; streams are refused (E405)."""
    began = time.perf_counter()
    counting, schemas, given = frames_of(query, streams, spark, "`explain`")
    question = question_of(query, schemas)
    planned = time.perf_counter() - began
    frames = list(
        {id(f): f for f in (given.values() if isinstance(given, dict) else [given])}.values()
    )
    began = time.perf_counter()
    events = sum(frame.count() for frame in frames)
    reading = time.perf_counter() - began
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"), measured_run() as run:
        rows = runtimes.run(runtimes.Request(query, given)).count()
    running = time.perf_counter() - began
    return Analysis(
        place="on Spark",
        events=events,
        kept=kept_events(question, counting),
        event_bytes=None,
        reads=_strategy(run),
        partial=tuple(kind_of(question.plan).partial_results(question, counting)),
        state=(STATE, LIVE),
        rows=(("", rows),),
        row_bytes=None,
        seconds=(("plan", planned), ("count events", reading), ("run", running)),
    )


def analyze_running(live: Any) -> str:
    """Describe what a live query of Spark has done so far, and each of its decisions."""
    recent = live.recentProgress
    counts = [_counts_of(one) for one in recent]
    last = counts[-1] if counts else {}
    took = [one["durationMs"].get("triggerExecution", 0) / 1000 for one in recent]
    sums = [(f"{number(sum(c.get(name, 0) for c in counts))} {word}") for name, word in SUMS]
    keys = amount(last.get("partitions", 0), "partition")
    waiting = amount(last.get("buffered", 0), "event")
    sections: list[Section] = [
        ("batches", [f"the last {len(recent)}; the query {_stands(live)}"]),
        ("events", [", ".join(sums)]),
        ("state", [f"{number(last.get('state_bytes', 0))} bytes, {keys}; {waiting} waiting"]),
        ("seconds", [_spread(took)]),
    ]
    told = [f"{one.time:%H:%M:%S} {one.text}" for one in decided(str(live.id))]
    sections.append(("decisions", told or ["none so far"]))
    return draw_sections("analysis  of a live query on Spark", sections)


def _counts_of(progress: Any) -> dict[str, int]:
    row = progress["observedMetrics"].get(METRICS)
    return {} if row is None else {k: v or 0 for k, v in row.asDict().items()}


def _stands(live: Any) -> str:
    if not live.isActive:
        return "has ended"
    return "waits for events" if not live.status["isDataAvailable"] else "runs"


def _spread(took: Sequence[float]) -> str:
    if not took:
        return "no micro-batch has ended"
    return f"{median(took):.3f} median, {max(took):.3f} longest micro-batch"


def _strategy(run: MeasuredRun) -> tuple[str, ...]:
    """Describe the strategy that was chosen, its seconds, and the estimated ones of all."""
    if run.chosen is None:
        return ()
    estimates = run.chosen.estimates
    ran = f"measured, {estimates[0].strategy.value}: {run.seconds:.2f} s from the choice to the end"
    return (ran, *(f"estimated, {one}" for one in estimates))


def analyze_workload_on_spark(workload: Any, events: Any, spark: Any) -> Analysis:
    """Run a workload on Spark, and report what it did; streams are refused (E405)."""
    first = workload.queries[0]
    began = time.perf_counter()
    _, _, frame = frames_of(first, [events], spark, "`explain`")
    planned = time.perf_counter() - began
    began = time.perf_counter()
    count = frame.count()
    reading = time.perf_counter() - began
    began = time.perf_counter()
    asked = runtimes.Request(workload, frame)
    with warnings.catch_warnings(action="ignore"):
        united = runtimes.WORKLOADS[asked.place](asked)
        found = {
            row[QUERY]: row["rows"]
            for row in united.groupBy(QUERY).agg(sf.count(sf.lit(1)).alias("rows")).collect()
        }
    running = time.perf_counter() - began
    return Analysis(
        place="on Spark, all queries together",
        events=count,
        kept=(),
        event_bytes=None,
        reads=(),
        partial=(),
        state=(STATE, LIVE),
        rows=tuple((name, found.get(name, 0)) for name in workload.names),
        row_bytes=None,
        seconds=(("plan", planned), ("count events", reading), ("run", running)),
    )
