"""Columns of Spark in, columns of another type out: CAST, whatever the settings of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from cepheid.events.schema import ValueKind
from cepheid.expressions.cast_types import (
    DOUBLE_TEXT,
    FALSE_TEXTS,
    TRUE_TEXTS,
    WHITESPACE,
    WHOLE_TEXT,
    Target,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


def converted(value: Column, kind: ValueKind, target: Target) -> tuple[Column, Column | None]:
    """Convert numbers, truth values and texts, and mark the values that have a counterpart.

    None marks all of them.
    """
    if target.kind is kind and target.bits == 64:
        return value, None
    if kind is ValueKind.UNKNOWN:
        types = {ValueKind.BOOLEAN: "boolean", ValueKind.INTEGER: "long", ValueKind.TEXT: "string"}
        return value.cast(types.get(target.kind, "double")), None
    if kind is ValueKind.TEXT:
        return _from_text(value, target)
    if target.kind is ValueKind.TEXT:
        return value.cast("string"), None
    if target.kind is ValueKind.DOUBLE:
        return value.cast("double"), None
    if target.kind is ValueKind.BOOLEAN:
        return value != sf.lit(0), None
    if kind is ValueKind.BOOLEAN:
        return value.cast("long"), None
    low, high = target.bounds
    if kind is ValueKind.INTEGER:
        return value, value.between(sf.lit(low), sf.lit(high))
    # The largest number of 64 bits has no double of its own, the one after it has.
    above = (value > sf.lit(float(low) - 1.0)) | (value == sf.lit(float(low)))
    inside = above & (value < sf.lit(float(high + 1)))
    return sf.when(inside, value).otherwise(sf.lit(0.0)).cast("long"), inside


def _from_text(value: Column, target: Target) -> tuple[Column, Column]:
    plain = sf.trim(value, sf.lit(WHITESPACE))
    if target.kind is ValueKind.BOOLEAN:
        small = sf.lower(plain)
        return small.isin(*TRUE_TEXTS), small.isin(*TRUE_TEXTS, *FALSE_TEXTS)
    if target.kind is ValueKind.DOUBLE:
        return plain.try_cast("double"), value.rlike(DOUBLE_TEXT)
    whole = plain.try_cast("long")
    low, high = target.bounds
    return whole, value.rlike(WHOLE_TEXT) & whole.between(sf.lit(low), sf.lit(high))
