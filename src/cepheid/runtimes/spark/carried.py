"""Live streams that carry their watermark: check what reads and writes marks (§15.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import functions as sf

from cepheid.jobs.derived import FeedsStreams
from cepheid.jobs.kind import kind_of
from cepheid.jobs.marks import CARRIED, MARK
from cepheid.options import LiveOptions, refuse, unused
from cepheid.plans.plan import Plan
from cepheid.spark.records import MARKED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBERS = ("int", "bigint", "string")


def carrying(frame: DataFrame, asked: LiveOptions) -> DataFrame:
    """Rename the column of marks, which is no column of events.

    Raises
    ------
    OptionError
        E592 if there is none, E591 for options that tell another time.
    """
    if asked.idle is not None:
        unused("idle", "a stream that carries its watermark says itself how time goes on")
    kinds = dict(frame.dtypes)
    if kinds.get(MARK) not in _NUMBERS:
        found = f"a column {kinds[MARK]}" if MARK in kinds else "no such column"
        message = f"the watermark is in `{MARK}`, a whole number of microseconds: there is {found}"
        refuse("E592", message, "write the rows of the first query with `marks=True`")
    return frame.withColumn(MARKED, sf.col(MARK).cast("bigint")).drop(MARK)


def refuse_marks(asked: LiveOptions) -> None:
    """Refuse marks where they are neither read nor written."""
    if asked.watermark == CARRIED:
        message = "joins, filters, rules, changelogs and SQL compute their watermark themselves"
        refuse("E592", message, "give a delay, such as `10 seconds`")
    if asked.marks:
        _only_pipelines()


def rows_behind(plan: Plan, schema: pa.Schema) -> int:
    """Compute how far rows are behind the watermark, in ticks.

    Raises
    ------
    OptionError
        E592 if rows have no time.
    """
    kind = kind_of(plan)
    if not isinstance(kind, FeedsStreams):
        _only_pipelines()
    return kind.rows_behind(plan, schema)


def _only_pipelines() -> NoReturn:
    message = "marks are for rows that have a time: those of a pipeline"
    refuse("E592", message, "write `CREATE STREAM name AS query; SELECT * FROM name`")
