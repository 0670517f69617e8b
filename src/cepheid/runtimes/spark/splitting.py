"""Check whether a live query can split hot keys, and decode the rows of one that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from cepheid.jobs.hot_keys import Split
from cepheid.jobs.kind import needs_of
from cepheid.jobs.marks import CARRIED
from cepheid.options import LiveOptions, texts, unused
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark.live_output import PART, PAYLOAD, Decode
from cepheid.runtimes.spark.split_tasks import rows_and_panes
from cepheid.runtimes.spark.stream_tasks import PANES
from cepheid.spark.schema import spark_schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from cepheid.jobs.work import Work


HASHES = 1 << 20
"""Hashes of keys for each bucket: those that share one with a hot key are few."""


def split_of(plan: Plan, asked: LiveOptions, buckets: int) -> Split | None:
    """Describe how a query splits hot keys, if that was asked for.

    Raises
    ------
    OptionError
        E591 if they cannot be split.
    """
    if asked.hot_keys is None:
        return None
    texts(hot_keys=asked.hot_keys)
    needs = needs_of(plan)
    why = needs.not_split
    if asked.late == "correct":
        why = "rows that may be corrected are made from all events of a key"
    if asked.watermark == CARRIED:
        why = "events may be ahead of a watermark that they carry"
    if buckets < 2:
        why = "there is one bucket"
    if why:
        unused("hot_keys", why)
    return Split(asked.hot_keys, needs.buckets, needs.pane, needs.within, buckets)


def refuse_splitting(asked: LiveOptions) -> None:
    """Refuse the option where keys are never split."""
    if asked.hot_keys is not None:
        unused("hot_keys", "only aggregates of trends are split")


def split_rows(work: Work, by: Split, results: pa.Schema) -> Decode:
    """Build the function that decodes rows, and makes rows of panes in one of its tasks."""

    def decode(frame: DataFrame) -> DataFrame:
        # All panes go to one task, rows to any: a key that differs spreads them.
        place = sf.when(sf.col(PART) == sf.lit(PANES), sf.lit(-1)).otherwise(
            sf.spark_partition_id()
        )
        ours = frame.select(PART, PAYLOAD).repartition(by.buckets, place)
        return ours.mapInArrow(rows_and_panes(work, by), spark_schema_of(results))

    return decode
