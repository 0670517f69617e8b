"""The output of a live query in parts: rows, late events and bad records leave one DataFrame.

Each part has its own columns, so a row of the DataFrame holds the name of its part and either bytes
or a structure. A part is decoded where it is needed: at once for ``q.stream``, or in each
micro-batch for a query that sends every part to its own sink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from cepheid.runtimes.spark.bad_records import BAD_SCHEMA
from cepheid.runtimes.spark.stream_tasks import BAD, PANES, ROWS, unpack
from cepheid.spark.records import quoted
from cepheid.spark.schema import spark_schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Decode = Callable[["DataFrame"], "DataFrame"]

PART, PAYLOAD = "part", "payload"
_ROW, _ABOUT = "row", "about"


def _nothing_left() -> None:
    """Say nothing at the end."""


class LiveOutput(NamedTuple):
    """A DataFrame of several parts, and how to decode each of them.

    ``finish`` is called when the query has ended: it warns of what is odd about its events.
    """

    frame: DataFrame
    decode: dict[str, Decode]
    mode: str = "append"
    finish: Callable[[], None] = _nothing_left

    def select(self, part: str, batch: DataFrame | None = None) -> DataFrame:
        """Decode one part of the output, or of one micro-batch of it."""
        frame = self.frame if batch is None else batch
        parts = (ROWS, PANES) if part == ROWS else (part,)
        return self.decode[part](frame.where(sf.col(PART).isin(*parts)))

    def rows(self) -> DataFrame:
        """Decode the rows."""
        return self.select(ROWS)


def payloads(schema: pa.Schema) -> Decode:
    """Build the function that decodes payloads of a schema."""

    def decode(frame: DataFrame) -> DataFrame:
        return frame.select(PAYLOAD).mapInArrow(unpack(schema), spark_schema_of(schema))

    return decode


def events_payloads(schema: pa.Schema, shown: StructType) -> Decode:
    """Build the function that decodes late events to the columns of their source."""

    def decode(frame: DataFrame) -> DataFrame:
        return frame.select(PAYLOAD).mapInArrow(unpack(schema), shown)

    return decode


def bad_payloads() -> Decode:
    """Build the function that decodes bad records."""

    def decode(frame: DataFrame) -> DataFrame:
        return frame.select(PAYLOAD).mapInArrow(unpack(None), BAD_SCHEMA)

    return decode


def united(rows: DataFrame, bad: DataFrame | None, mode: str = "append") -> LiveOutput:
    """Unite the rows of Spark's own operators with bad records, which are read once more."""
    frame = rows.select(
        sf.lit(ROWS).alias(PART),
        sf.struct(*map(quoted, rows.columns)).alias(_ROW),
        sf.lit(None).cast(BAD_SCHEMA).alias(_ABOUT),
    )
    decode: dict[str, Decode] = {ROWS: lambda batch: batch.select(f"{_ROW}.*")}
    if bad is not None:
        about = bad.select(
            sf.lit(BAD).alias(PART),
            sf.lit(None).cast(rows.schema).alias(_ROW),
            sf.struct(*bad.columns).alias(_ABOUT),
        )
        frame = frame.union(about)
        decode[BAD] = lambda batch: batch.select(f"{_ABOUT}.*")
    return LiveOutput(frame, decode, mode)
