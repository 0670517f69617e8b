"""SELECT over streaming DataFrames with Spark's own operators and watermarks (§10.7).

``counted.py`` has a stateful operator for count-based windows, which Spark lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.expressions.spark_columns import Expressions
from cepheid.kinds.selection.explain import why_not_live
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, Selection, SelectKind
from cepheid.runtimes.spark.selection.counted import stream_counted, stream_counted_join
from cepheid.runtimes.spark.selection.frames import aggregate_stream, select_frames
from cepheid.runtimes.spark.selection.join import join_frames
from cepheid.runtimes.spark.selection.rows import filtered, stream_of
from cepheid.runtimes.spark.selection.windows import Clock
from cepheid.runtimes.spark.stream import check_stream, delay_of, set_up
from cepheid.runtimes.two_streams import with_schemas
from cepheid.spark.text_times import timed_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtimes.local import CompiledQueryLike

MOMENT = "cepheid_moment"


def stream_select(
    compiled: CompiledQueryLike, frames: Sequence[DataFrame], *, watermark: str, late: str
) -> DataFrame | tuple[DataFrame, DataFrame]:
    """Build the rows of a SELECT over streams, for append mode, and optionally late events.

    Raises
    ------
    ValueError
        If a DataFrame is no stream, or ``late`` is unknown.
    UnsupportedError
        E405 if the query cannot run over a stream.
    """
    plan = SelectPlan.of(compiled.plan)
    for frame in frames:
        check_stream(frame, late)
    why = why_not_live(plan.select)
    if why:
        helps = ("add `WINDOW 10 minutes`, or `WINDOW 1000 EVENTS`",)
        raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)
    if late == "side" and (why := why_no_late(plan.select)):
        helps = ('leave `late="side"` out, or give a longer watermark',)
        raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)
    frames = [timed_frame(frame, compiled.times) for frame in frames]
    planned = with_schemas(compiled, [frame.schema for frame in frames])
    delay_of(frames[0].sparkSession, watermark)  # Reports a bad delay in one line.
    return _stream(planned, frames, watermark, late)


def why_no_late(select: Selection) -> str:
    """Explain why late events cannot be returned; empty if they can."""
    if select.window.extent is not Extent.EVENTS:
        return "late events of a SELECT are Spark's, which drops them"
    if select.kind is SelectKind.JOIN:
        return "late events of a JOIN are of two streams, with columns of their own"
    return ""


def _stream(
    plan: SelectPlan, frames: Sequence[DataFrame], watermark: str, late: str
) -> DataFrame | tuple[DataFrame, DataFrame]:
    select = plan.select
    if select.kind is SelectKind.FILTER:
        return select_frames(plan, frames)
    set_up(frames[0].sparkSession)
    counted = select.window.extent is Extent.EVENTS
    if select.kind is SelectKind.JOIN:
        join = stream_counted_join if counted else join_frames
        return join(plan, frames, watermark)
    if counted:
        return stream_counted(plan, frames[0], watermark=watermark, late=late)
    stream = stream_of(select.streams[0].alias, frames[0])
    expressions = Expressions(lambda node: stream.typed(node.attribute.text))
    # Events that WHERE drops do not exist, so they do not advance the watermark either.
    clock = Clock.of(stream.typed(plan.time), select.window).watched()
    kept = filtered(stream.frame, select.condition, expressions).withColumn(MOMENT, clock.moment)
    watched = stream._replace(frame=kept.withWatermark(MOMENT, watermark))
    shown = clock._replace(moment=sf.col(f"`{MOMENT}`"))
    return aggregate_stream(plan, watched, expressions, clock=shown)
