"""Records of a live source: text in, the columns of events out, and what is wrong with a record.

A source gives the columns of its events and up to three more:

    _raw       the record as it came: a line, a message, or the row as JSON
    _origin    where it came from: a file, or a topic, partition and offset
    _reason    why it cannot be read; NULL if it was read

A record that cannot be read is a row too, so that it can be counted and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAW, ORIGIN, REASON = "_raw", "_origin", "_reason"
RECORD_COLUMNS = (RAW, ORIGIN, REASON)

BAD = "__bad"
"""A column with the origin, the text and the reason of a bad record; NULL for an event."""

CORRUPT = "_corrupt_record"
"""Spark's usual name of the column with the text that it could not parse."""

_PARSED = "__parsed"


def quoted(name: str) -> str:
    """Quote the name of a column."""
    return f"`{name.replace('`', '``')}`"


def event_columns(frame: DataFrame) -> list[str]:
    """List the columns of the events, without those about records.

    Only a source that gives reasons has the others.
    """
    about = (*RECORD_COLUMNS, CORRUPT) if REASON in frame.columns else (CORRUPT,)
    return [name for name in frame.columns if name not in about]


def parse_json(
    frame: DataFrame,
    text: Column,
    origin: Column,
    columns: StructType,
    keep: Sequence[Column] = (),
) -> DataFrame:
    """Parse a JSON object in every row of a frame into columns, with a reason where it fails.

    A value of another type than its column is a reason too: Spark alone would leave it NULL.
    ``keep`` are columns of the frame, with names of their own, that follow.
    """
    whole = _readable(text)
    with_corrupt = _schema(columns)
    parsed = sf.from_json(whole, with_corrupt, {"columnNameOfCorruptRecord": CORRUPT})
    wrong = [(sf.try_parse_json(sf.col(RAW)).isNull(), sf.lit("the text is not JSON"))]
    for field in columns.fields:
        # Names with quotes cannot be part of a path; a more general reason follows.
        if "'" in field.name or '"' in field.name:
            continue
        given = sf.get_json_object(sf.col(RAW), f"$['{field.name}']")
        unread = sf.col(f"{_PARSED}.{quoted(field.name)}").isNull() & given.isNotNull()
        message = f"the value of `{field.name}` is not of type {field.dataType.simpleString()}"
        wrong.append((unread, sf.lit(message)))
    return _parsed(frame, text, origin, parsed, columns, wrong, keep)


def parse_csv(frame: DataFrame, text: Column, origin: Column, columns: StructType) -> DataFrame:
    """Parse a line of CSV in every row of a frame into columns, with a reason where it fails."""
    whole = _readable(text)
    options = {"columnNameOfCorruptRecord": CORRUPT}
    parsed = sf.from_csv(whole, sf.lit(_schema(columns).toDDL()), options)
    return _parsed(frame, text, origin, parsed, columns, [])


def _readable(text: Column) -> Column:
    """Leave out texts that are not UTF-8, because parsers would replace their characters."""
    shown = text.cast("string")
    return sf.when(sf.is_valid_utf8(shown), shown)


def _schema(columns: StructType) -> StructType:
    return StructType([*columns.fields, StructField(CORRUPT, StringType())])


def _parsed(
    frame: DataFrame,
    text: Column,
    origin: Column,
    parsed: Column,
    columns: StructType,
    wrong: list[tuple[Column, Column]],
    keep: Sequence[Column] = (),
) -> DataFrame:
    raw = sf.make_valid_utf8(text.cast("string"))
    rows = frame.select(
        raw.alias(RAW), origin.alias(ORIGIN), parsed.alias(_PARSED),
        (~sf.is_valid_utf8(text.cast("string"))).alias(CORRUPT), *keep,
    )  # fmt: skip
    general = sf.lit("the record does not fit the columns")
    first = reduce(
        lambda rest, one: sf.when(one[0], one[1]).otherwise(rest), reversed(wrong), general
    )
    reason = sf.when(sf.col(RAW).isNull(), "the record is empty")
    reason = reason.when(sf.col(CORRUPT), "the text is not UTF-8")
    reason = reason.when(sf.col(f"{_PARSED}.{CORRUPT}").isNotNull(), first)
    values = [sf.col(f"{_PARSED}.{quoted(f.name)}").alias(f.name) for f in columns.fields]
    return rows.select(*values, RAW, ORIGIN, reason.alias(REASON), *rows.columns[4:])
