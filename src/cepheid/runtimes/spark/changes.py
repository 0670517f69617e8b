"""The current table of a changelog on Spark: a DataFrame in, a DataFrame out, lazily (§18)."""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as sf

from cepheid.events.files import find_files
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.ops import BEFORE, DELETE, SPELLINGS, UPDATE
from cepheid.options import Held, holder_of
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark.scan import read_frame
from cepheid.spark.operations import operation
from cepheid.spark.records import quoted
from cepheid.spark.text_times import timed_frame
from cepheid.spark.whole_frames import refuse_stream_of_query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cepheid.events.time_formats import TextTimes

_OP, _COMES, _STEP, _NOW = "__op", "__comes", "__step", "__now"


def frame_of(events: Any, spark: SparkSession | None, times: TextTimes) -> DataFrame:
    """Return a changelog as a DataFrame, with its times read."""
    if holder_of(events) is Held.FRAME:
        frame: DataFrame = events
        return timed_frame(frame, times)
    assert spark is not None, "files that Spark reads"
    return read_frame(spark, [str(path) for path in find_files(fspath(events))], times)


def current_frame(frame: DataFrame, changes: Changes, plan: Plan) -> DataFrame:
    """Return the events that are there after all changes, in the order of their last changes."""
    refuse_stream_of_query(frame, plan.text)
    changes.check_columns(frame.columns)
    names = changes.attributes(frame.columns)
    numbered = frame.withColumn(_OP, _checked(changes)).withColumn(
        _COMES, sf.monotonically_increasing_id()
    )
    order = [sf.col(quoted(name)).asc_nulls_first() for name in changes.order]
    order.append(sf.col(_COMES).asc())
    takes = sf.col(_OP).isin(BEFORE, DELETE)
    if changes.id:
        said = numbered.where(sf.col(_OP) != sf.lit(BEFORE))
        back = [sf.col(quoted(name)).desc_nulls_last() for name in changes.order]
        window = Window.partitionBy(*(sf.col(quoted(n)) for n in changes.id))
        last = sf.row_number().over(window.orderBy(*back, sf.col(_COMES).desc()))
        kept = said.withColumn(_NOW, last).where((sf.col(_NOW) == sf.lit(1)) & ~takes)
    else:
        kept = _of_equal_events(numbered, names, order, takes)
    # Spark knows no other order of arrival than that of rows.
    return kept.orderBy(*order).select(*map(quoted, names))


def _of_equal_events(
    frame: DataFrame, names: list[str], order: list[Column], takes: Column
) -> DataFrame:
    """Keep as many of equal events as were not taken away, the first ones (§18.2)."""
    window = Window.partitionBy(*(sf.col(quoted(n)) for n in names))
    sofar = window.orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = window.orderBy(*order).rowsBetween(Window.currentRow, Window.unboundedFollowing)
    step = sf.when(takes, sf.lit(-1)).otherwise(sf.lit(1))
    running = frame.withColumn(_STEP, sf.sum(step).over(sofar))
    # Below zero nothing is there to be taken away.
    lowest = sf.least(sf.min(_STEP).over(sofar), sf.lit(0))
    there = running.withColumn(_NOW, sf.col(_STEP) - lowest)
    stays = ~takes & (sf.min(_NOW).over(later) >= sf.col(_NOW))
    return there.withColumn(_STEP, stays).where(sf.col(_STEP))


def _checked(changes: Changes) -> Column:
    """Return the number of every operation; a bad change fails the query (E583)."""
    op, number = sf.col(quoted(changes.op)).cast("string"), operation(changes)
    wrong = {f"the operation is none of {SPELLINGS}": number.isNull()}
    for name in changes.id:
        wrong[f"the id `{name}` is NULL"] = sf.col(quoted(name)).isNull()
    if not changes.id:
        why = "an update without an id does not say what it replaces"
        wrong[why] = number == sf.lit(UPDATE)
    shown = sf.coalesce(op, sf.lit("NULL"))
    checks = [
        sf.when(
            condition,
            sf.raise_error(
                sf.concat(sf.lit(f"error[E583]: a change is bad: {why}; `op` is "), shown)
            ).cast("int"),
        )
        for why, condition in wrong.items()
    ]
    return sf.coalesce(*checks, number)
