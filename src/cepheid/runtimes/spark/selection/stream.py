"""SELECT over streaming DataFrames (§10.7).

Spark filters, and joins two streams by time, with operators and watermarks of its own. Windows of
one stream, joins of windows of events, of three streams and more, and those whose pairs are
aggregated, are operators of Cepheid (``live.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.selection.explain import runs_as_stage
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
from cepheid.runtimes.spark.selection.frames import select_frames
from cepheid.runtimes.spark.selection.join import join_frames
from cepheid.runtimes.spark.selection.live import (
    aggregate_output,
    late_of_aggregate,
    stream_counted_join,
    stream_join,
)
from cepheid.runtimes.spark.selection.odd_times import observed_times
from cepheid.runtimes.spark.stream import Delays, check_stream, set_up, with_sides
from cepheid.runtimes.two_streams import with_schemas
from cepheid.spark.records import event_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtimes.local import CompiledQueryLike


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
    if asked.late == "side" and (why := why_no_late(plan.select)):
        helps = ('leave `late="side"` out, or give a longer watermark',)
        raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)
    if asked.late == "correct":
        why = "a late event of a join would need all events of the other stream"
        helps = ('use `late="side"`, or give a longer watermark',)
        raise UnsupportedError([Diagnostic("E407", why, helps=helps)], plan.text)
    if asked.idle is not None and (why := why_no_idle(plan.select)):
        helps = ("leave `idle` out, and send an event with a later time from time to time",)
        raise UnsupportedError([Diagnostic("E406", why, helps=helps)], plan.text)
    frames = [timed_records(frame, compiled.times) for frame in frames]
    planned = with_schemas(compiled, [events_schema(frame) for frame in frames])
    if planned.select.kind is not SelectKind.FILTER:
        set_up(frames[0].sparkSession)
    sheds = planned.select.kind is SelectKind.AGGREGATE
    delays = Delays.of(frames[0].sparkSession, asked, sheds=sheds)
    checked = _checked(planned, frames, delays)

    def bad() -> DataFrame:
        return reduce(lambda a, b: a.union(b), [one.bad() for one in checked])

    if planned.select.kind is SelectKind.AGGREGATE:
        if asked.tagged:
            marked = checked[0].tagged(asked.bad)
            return aggregate_output(planned, marked, delays, whole=asked.late == "side")
        events = checked[0].events(asked.bad)
        rows = aggregate_output(planned, events, delays).rows()
        return with_sides(rows, lambda: late_of_aggregate(planned, events, delays), bad, asked)
    rows = _stream(
        planned, observed_times(planned, [one.events(asked.bad) for one in checked]), delays
    )
    if asked.tagged:
        return united(rows, bad() if asked.bad == "side" else None)
    return (rows, bad()) if asked.bad == "side" else rows


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


def why_no_late(select: Selection) -> str:
    """Explain why late events cannot be returned; empty if they can."""
    if select.kind is SelectKind.FILTER:
        return "no event is late for a SELECT that only filters"
    if select.kind is SelectKind.JOIN:
        return "late events of a JOIN are of two streams, with columns of their own"
    return ""


def why_no_idle(select: Selection) -> str:
    """Explain why time cannot go on without events; empty if it can."""
    if select.kind is SelectKind.FILTER:
        return "a SELECT that only filters waits for no time"
    if select.kind is SelectKind.JOIN:
        return "a JOIN waits for events of both streams, of which one may be silent for long"
    return ""


def _stream(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> DataFrame:
    select = plan.select
    if select.kind is SelectKind.FILTER:
        return select_frames(plan, frames)
    if runs_as_stage(select):
        return stream_join(plan, frames, delays)
    if select.window.extent is Extent.EVENTS:
        return stream_counted_join(plan, frames, delays)
    return join_frames(plan, frames, delays.watermark)
