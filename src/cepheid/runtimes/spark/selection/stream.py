"""SELECT over streaming DataFrames with Spark's own operators and watermarks (§10.7).

``counted.py`` has a stateful operator for count-based windows, which Spark lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.expressions.spark_columns import Expressions
from cepheid.jobs.kind import kind_of
from cepheid.options import LiveOptions
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, Selection, SelectKind
from cepheid.runtimes.spark.bad_records import (
    RECORDS,
    Asked,
    Checked,
    events_schema,
    timed_records,
)
from cepheid.runtimes.spark.live_output import united
from cepheid.runtimes.spark.selection.counted import (
    late_counted,
    stream_counted,
    stream_counted_join,
)
from cepheid.runtimes.spark.selection.frames import aggregate_stream, select_frames
from cepheid.runtimes.spark.selection.join import join_frames
from cepheid.runtimes.spark.selection.odd_times import observed_times
from cepheid.runtimes.spark.selection.rows import filtered, stream_of
from cepheid.runtimes.spark.selection.windows import Clock
from cepheid.runtimes.spark.stream import Delays, check_stream, set_up, with_sides
from cepheid.runtimes.two_streams import with_schemas
from cepheid.spark.records import event_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtimes.local import CompiledQueryLike

MOMENT = "cepheid_moment"


def stream_select(
    compiled: CompiledQueryLike, frames: Sequence[DataFrame], asked: LiveOptions
) -> Any:
    """Build the rows of a SELECT over streams and, if requested, late and bad records.

    Raises
    ------
    ValueError
        If a DataFrame is no stream, or an option is unknown.
    UnsupportedError
        E405 if the query cannot run over a stream.
    """
    plan = SelectPlan.of(compiled.plan)
    for frame in frames:
        check_stream(frame, asked)
    kind_of(plan).check_live(plan)
    if asked.late == "side" and (why := why_no_late(plan.select, tagged=asked.tagged)):
        helps = ('leave `late="side"` out, or give a longer watermark',)
        raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)
    if asked.late == "correct":
        why = "a SELECT runs on Spark's own operators, which do not correct rows"
        helps = ("write the aggregates as a pattern query: `RETURN COUNT(*) PATTERN A`",)
        raise UnsupportedError([Diagnostic("E407", why, helps=helps)], plan.text)
    if asked.idle is not None and (why := why_no_idle(plan.select)):
        helps = ("leave `idle` out, and send an event with a later time from time to time",)
        raise UnsupportedError([Diagnostic("E406", why, helps=helps)], plan.text)
    frames = [timed_records(frame, compiled.times) for frame in frames]
    planned = with_schemas(compiled, [events_schema(frame) for frame in frames])
    delays = Delays.of(frames[0].sparkSession, asked)
    checked = _checked(planned, frames, delays)
    events = observed_times(planned, [one.events(asked.bad) for one in checked])

    def bad() -> DataFrame:
        return reduce(lambda a, b: a.union(b), [one.bad() for one in checked])

    def late() -> DataFrame:
        return late_counted(planned, events[0], delays)

    rows = _stream(planned, events, delays)
    if asked.tagged:
        return united(rows, bad() if asked.bad == "side" else None)
    return with_sides(rows, late, bad, asked)


def _checked(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> list[Checked]:
    """Check the records of each stream; GROUP BY and ON take NULL as it is (§10.5)."""
    found = []
    for stream, frame in zip(plan.select.streams, frames, strict=True):
        reads = stream.reads if stream.reads is not None else event_columns(frame)
        needed = [name for name in reads if name != plan.time]
        asked = Asked(plan.time, plan.tick_ns, None, (), tuple(needed), delays.ahead)
        name = RECORDS if len(frames) == 1 else f"{RECORDS}_{stream.alias}"
        found.append(Checked.of(frame, asked, name))
    return found


def why_no_late(select: Selection, *, tagged: bool = False) -> str:
    """Explain why late events cannot be returned; empty if they can."""
    if tagged:
        return "late events of a SELECT leave a query of their own: `q.stream` returns them"
    if select.window.extent is not Extent.EVENTS:
        return "late events of a SELECT are Spark's, which drops them"
    if select.kind is SelectKind.JOIN:
        return "late events of a JOIN are of two streams, with columns of their own"
    return ""


def why_no_idle(select: Selection) -> str:
    """Explain why time cannot go on without events; empty if it can."""
    if select.window.extent is not Extent.EVENTS:
        return "windows of time of a SELECT follow Spark's watermark, which only events advance"
    if select.kind is SelectKind.JOIN:
        return "a JOIN waits for events of both streams, of which one may be silent for long"
    return ""


def _stream(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> DataFrame:
    select = plan.select
    if select.kind is SelectKind.FILTER:
        return select_frames(plan, frames)
    set_up(frames[0].sparkSession)
    counted = select.window.extent is Extent.EVENTS
    if select.kind is SelectKind.JOIN:
        if counted:
            return stream_counted_join(plan, frames, delays)
        return join_frames(plan, frames, delays.watermark)
    if counted:
        return stream_counted(plan, frames[0], delays)
    stream = stream_of(select.streams[0].alias, frames[0])
    expressions = Expressions(lambda node: stream.typed(node.attribute.text))
    # Events that WHERE drops do not exist, so they do not advance the watermark either.
    clock = Clock.of(stream.typed(plan.time), select.window).watched()
    kept = filtered(stream.frame, select.condition, expressions).withColumn(MOMENT, clock.moment)
    watched = stream._replace(frame=kept.withWatermark(MOMENT, delays.watermark))
    shown = clock._replace(moment=sf.col(f"`{MOMENT}`"))
    return aggregate_stream(plan, watched, expressions, clock=shown)
