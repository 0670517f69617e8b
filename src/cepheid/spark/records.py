"""Records of a live source: text in, the columns of events out, and what is wrong with a record.

A source gives the columns of its events and up to three more:

    _raw       the record as it came: a line, a message, or the row as JSON
    _origin    where it came from: a file, or a topic, partition and offset
    _reason    why it cannot be read; NULL if it was read

A record that cannot be read is a row too, so that it can be counted and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAW, ORIGIN, REASON = "_raw", "_origin", "_reason"
RECORD_COLUMNS = (RAW, ORIGIN, REASON)

BAD = "__bad"
"""A column with the origin, the text and the reason of a bad record; NULL for an event."""

MARKED = "__mark"
"""A column with the watermark that a stream carries (§15.8); NULL for an event."""

CORRUPT = "_corrupt_record"
"""Spark's usual name of the column with the text that it could not parse."""

_PARSED, _LIST = "__parsed", "records"


def quoted(name: str) -> str:
    """Quote the name of a column."""
    return f"`{name.replace('`', '``')}`"


def event_columns(frame: DataFrame) -> list[str]:
    """List the columns of the events, without those about records.

    Only a source that gives reasons has the others.
    """
    about = (*RECORD_COLUMNS, CORRUPT) if REASON in frame.columns else (CORRUPT,)
    about = (*about, MARKED)
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
    inside, rest = _in_a_list(columns), {"columnNameOfCorruptRecord": CORRUPT}
    listed = sf.concat(sf.lit(f'{{"{_LIST}":['), _readable(text), sf.lit("]}"))
    raw = sf.make_valid_utf8(text.cast("string"))
    rows = frame.select(
        raw.alias(RAW), origin.alias(ORIGIN), sf.from_json(listed, inside, rest).alias(_PARSED),
        (~sf.is_valid_utf8(text.cast("string"))).alias(CORRUPT), *keep,
    )  # fmt: skip
    objects = sf.col(f"{_PARSED}.{_LIST}")
    first = sf.get(objects, sf.lit(0))
    parsed = {field.name: first[field.name] for field in columns.fields}
    reason = sf.when(sf.col(RAW).isNull(), "the record is empty")
    reason = reason.when(sf.col(CORRUPT), "the text is not UTF-8")
    several = sf.coalesce(sf.size(objects) != sf.lit(1), sf.expr("true")) | first.isNull()
    no_json = sf.try_parse_json(sf.col(RAW)).isNull()
    said = sf.when(no_json, "the text is not JSON").otherwise("the text is not one JSON object")
    reason = reason.when(several, said)
    reason = reason.when(sf.col(f"{_PARSED}.{CORRUPT}").isNotNull(), _unfit(columns, parsed))
    values = [column.alias(name) for name, column in parsed.items()]
    return rows.select(*values, RAW, ORIGIN, reason.alias(REASON), *rows.columns[4:])


def _in_a_list(columns: StructType) -> StructType:
    """Build the schema of a list of objects.

    Spark reads the first object of a text and ignores what follows. In a list it cannot: a second
    object is a second element, and anything else is not JSON.
    """
    corrupt = StructField(CORRUPT, StringType())
    return StructType([StructField(_LIST, ArrayType(columns)), corrupt])


def _unfit(columns: StructType, parsed: Mapping[str, Column]) -> Column:
    """Name the first column that a value of an object does not fit."""
    reason = sf.lit("the record does not fit the columns")
    for field in reversed(columns.fields):
        # Names with quotes cannot be part of a path; the general reason serves them.
        if "'" in field.name or '"' in field.name:
            continue
        given = sf.get_json_object(sf.col(RAW), f"$['{field.name}']")
        unread = parsed[field.name].isNull() & given.isNotNull()
        message = f"the value of `{field.name}` is not of type {field.dataType.simpleString()}"
        reason = sf.when(unread, message).otherwise(reason)
    return reason


def _readable(text: Column) -> Column:
    """Leave out texts that are not UTF-8, because parsers would replace their characters."""
    shown = text.cast("string")
    return sf.when(sf.is_valid_utf8(shown), shown)
