"""MATCH_RECOGNIZE over streaming DataFrames: rows in, those of certain matches out, each once.

Rows go to buckets by the keys of PARTITION BY and wait there for the watermark, as the events of
all live queries do (``spark_stream.py``); the job is that of ``live_row_pattern.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.row_pattern.live_rules import describe_live, why_not_live
from cepheid.row_pattern.live_text import why_not_around
from cepheid.row_pattern.recognize import result_schema
from cepheid.runtime import spark_stream_tasks as tasks
from cepheid.runtime.live_row_pattern import plan_live
from cepheid.runtime.spark_batch import canonical
from cepheid.runtime.spark_io import BUCKET
from cepheid.runtime.spark_schema import alias_of
from cepheid.runtime.spark_stream import (
    buckets_of,
    delay_of,
    partitions_of,
    rows_of_turns,
    set_up,
)
from cepheid.runtime.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from cepheid.row_pattern.plan import MatchPlan
    from cepheid.row_pattern.statement import Site, Statement


def live_frame(
    frame: DataFrame, statement: Statement, clause: MatchPlan, watermark: str | None
) -> DataFrame:
    """Return the rows of a clause over a stream, as a streaming DataFrame.

    Raises
    ------
    UnsupportedError
        E405 if there is no watermark, or the text cannot be live.
    """
    if watermark is None:
        raise UnsupportedError([_no_watermark(statement.sites[0])], statement.text)
    spark, names = frame.sparkSession, clause.read_columns
    projected = frame.select(*(sf.col(_quoted(name)).alias(alias_of(name)) for name in names))
    schema = _schema_of(projected, names)
    found = why_not_around(statement)
    found = found or why_not_live(statement.sites[0].clause, clause, schema)
    if found is not None:
        raise UnsupportedError([found], statement.text)
    plan = plan_live(statement, clause, schema)
    results = result_schema(clause, schema)
    set_up(spark)
    keys = clause.partition_by
    buckets = buckets_of(spark, partitions_of(spark)) if keys else (0,)
    work = Work.of(plan, schema, results, len(buckets), delay=delay_of(spark, watermark))
    if keys:
        columns = [canonical(projected, name) for name in keys]
        projected = projected.withColumn(BUCKET, sf.pmod(sf.hash(*columns), sf.lit(len(buckets))))
    sent = projected.mapInArrow(tasks.send_stream(work, buckets, drop=False), tasks.SENT_DDL)
    return rows_of_turns(sent, watermark, tasks.take_turns(work), results)


def describe_stream(frame: DataFrame, statement: Statement, clause: MatchPlan) -> list[str]:
    """Tell how a clause runs over a stream, or why it does not."""
    around = why_not_around(statement)
    if around is not None:
        return [f"no: {around.message}", *(f"  {text}" for text in around.helps)]
    return describe_live(statement.sites[0].clause, clause, _schema_of(frame, frame.columns))


def _schema_of(frame: DataFrame, names: Sequence[str]) -> pa.Schema:
    """Return the columns of a DataFrame under names of their own, times in the session's zone.

    Over a table they are in that zone too, so HOUR(ts) means the same.
    """
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    kinds = to_arrow_schema(frame.schema, timezone=zone)
    return pa.schema([(name, field.type) for name, field in zip(names, kinds, strict=True)])


def _no_watermark(site: Site) -> Diagnostic:
    message = "this DataFrame is a stream, and without a watermark no row ever has its place in it"
    helps = ("say how late rows may come: `cepheid.sql(spark, text, watermark='10 seconds')`",)
    return Diagnostic("E405", message, site.source, helps=helps)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
