"""SELECT over streaming DataFrames: Spark's own operators, with watermarks (§10.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.planner.explain_select import why_not_live
from cepheid.planner.plan import Plan
from cepheid.planner.select_plan import SelectKind
from cepheid.runtime.select_run import with_schemas
from cepheid.runtime.select_sources import named_streams
from cepheid.runtime.spark_expressions import Expressions
from cepheid.runtime.spark_select import aggregate_stream, select_frames
from cepheid.runtime.spark_select_join import join_frames
from cepheid.runtime.spark_select_rows import filtered, stream_of
from cepheid.runtime.spark_select_windows import Clock
from cepheid.runtime.spark_stream import check_stream, set_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtime.local import CompiledQueryLike

MOMENT = "cepheid_moment"


def stream_select(
    compiled: CompiledQueryLike, events: Any, *, watermark: str, late: str
) -> DataFrame:
    """Return the rows of a SELECT over streams, for output mode append.

    Raises
    ------
    ValueError
        If a DataFrame is no stream, or ``late`` is unknown.
    UnsupportedError
        E405 if the query cannot be a live one.
    """
    plan = compiled.plan
    assert plan.select is not None, "a SELECT"
    frames = named_streams(plan.select, events, plan.text)
    for frame in frames:
        check_stream(frame, late)
    if late == "side":
        message = "late events of a SELECT are Spark's, which drops them"
        helps = ('leave `late="side"` out, or give a longer watermark',)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    why = why_not_live(plan.select)
    if why:
        helps = ("give `WINDOW` a length of time",)
        raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)
    planned = with_schemas(compiled, [frame.schema for frame in frames]).plan
    return _stream(planned, frames, watermark)


def _stream(plan: Plan, frames: Sequence[DataFrame], watermark: str) -> DataFrame:
    select = plan.select
    assert select is not None, "a SELECT"
    if select.kind is SelectKind.FILTER:
        return select_frames(plan, frames)
    set_up(frames[0].sparkSession)
    if select.kind is SelectKind.JOIN:
        return join_frames(plan, frames, watermark)
    stream = stream_of(select.streams[0].alias, frames[0])
    expressions = Expressions(lambda node: stream.typed(node.attribute.text))
    # What WHERE drops does not exist, so it moves no watermark either.
    clock = Clock.of(stream.typed(plan.time), select.window).watched()
    kept = filtered(stream.frame, select.condition, expressions).withColumn(MOMENT, clock.moment)
    watched = stream._replace(frame=kept.withWatermark(MOMENT, watermark))
    shown = clock._replace(moment=sf.col(f"`{MOMENT}`"))
    return aggregate_stream(plan, watched, expressions, clock=shown)
