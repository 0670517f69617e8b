"""Read times that are text in DataFrames, batch and streaming, with Spark's own expressions.

The expression and the formula are those of ``events/time_formats.py``, so a text means the same
time as in process, whatever the time zone of the session is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DateType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cepheid.events.time_formats import MONTHS, TextTimes, TimeFormat, microseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BETWEEN = "\x01"
"""The separator of the parts of a time; no part contains it."""


class _OfSpark:
    """Arithmetic of whole numbers in columns of Spark."""

    def divide(self, left: Any, right: int) -> Any:
        """Divide whole numbers, rounded down."""
        return sf.floor(left / sf.lit(right))

    def whole(self, condition: Any) -> Any:
        """Convert a condition to 0 and 1."""
        return condition.cast("long")


def text_time(text: Column, form: TimeFormat) -> Column:
    """Read a column of texts as timestamps, NULL where a text is no time."""
    places = _BETWEEN.join(f"${number}" for number in range(1, len(form.parts) + 1))
    parts = sf.split(sf.regexp_replace(text, form.pattern, places), _BETWEEN, -1)
    numbers = {
        "month" if name == "month_name" else name: _number(name, sf.get(parts, sf.lit(number)))
        for number, name in enumerate(form.parts)
    }
    times, valid = microseconds(numbers, _OfSpark())
    return sf.when(text.rlike(form.pattern) & valid, sf.timestamp_micros(times.cast("long")))


def is_unreadable(text: Column, form: TimeFormat) -> Column:
    """Tell which texts are not NULL and no times: those that ``text_time`` cannot read."""
    return text.isNotNull() & text_time(text, form).isNull()


def _number(part: str, text: Column) -> Column:
    """Convert the texts of a part to whole numbers; a part that is not there is 0."""
    if part == "month_name":
        names = sf.array(*(sf.lit(name) for name in MONTHS))
        return sf.coalesce(sf.array_position(names, sf.lower(text).substr(1, 3)), sf.lit(0))
    if part == "half":
        return (sf.lower(text) == "pm").cast("long")
    if part == "sign":
        return sf.when(text == "-", sf.lit(-1)).otherwise(sf.lit(1)).cast("long")
    digits = sf.rpad(text, 9, "0").substr(1, 6) if part == "fraction" else text
    return sf.coalesce(digits.try_cast("long"), sf.lit(0).cast("long"))


def timed_frame(frame: DataFrame, times: TextTimes) -> DataFrame:
    """Read the time column of a DataFrame, if it is text; a text that is no time is E580.

    Other DataFrames are returned unchanged.
    """
    if not is_text_time(frame, times):
        return frame
    form = times.compiled()
    text = sf.col(f"`{times.column.replace('`', '``')}`")
    message = sf.concat(
        sf.lit("error[E580]: the time `"),
        sf.substring(text, 1, 60),
        sf.lit(f"` of `{times.column}` is not {form.name}\n  = help: {_HELP}"),
    )
    wrong = sf.when(is_unreadable(text, form), sf.raise_error(message).cast("timestamp"))
    return frame.withColumn(times.column, wrong.otherwise(text_time(text, form)))


_HELP = "name the format of its times: `cepheid.query(..., time_format='%d/%m/%Y %H:%M:%S')`"


def with_text_time(schema: StructType, times: TextTimes) -> StructType:
    """Let the time column be text where Spark guessed a timestamp or a date from texts.

    Spark would read texts without a zone in the zone of the session, not in UTC.
    """
    guessed = (TimestampType, TimestampNTZType, DateType)

    def kept(field: StructField) -> StructField:
        named = times.format and not isinstance(field.dataType, StringType)
        if field.name == times.column and (named or isinstance(field.dataType, guessed)):
            return StructField(field.name, StringType(), field.nullable)
        return field

    return StructType([kept(field) for field in schema.fields])


def is_text_time(frame: DataFrame, times: TextTimes) -> bool:
    """Check whether the time column of a DataFrame is text."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return isinstance(kinds.get(times.column), StringType)
