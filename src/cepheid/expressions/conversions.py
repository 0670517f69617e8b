"""Values of one kind in, values of another out: what CAST means in the language and in SQL (§4.12).

``spark_columns`` computes the same with Spark's operators, from the texts that are valid here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.schema import ValueKind
from cepheid.expressions.cast_types import (
    DOUBLE_TEXT,
    FALSE_TEXTS,
    TRUE_TEXTS,
    WHITESPACE,
    WHOLE_TEXT,
    Target,
)
from cepheid.expressions.vectors import INT64_MAX, INT64_MIN, Vector, both_valid, plain_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cepheid.expressions.vectors import Mask, Texts

_B, _I, _D, _T = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
_DAY_US = 86_400_000_000


class ConversionError(ValueError):
    """A value has no counterpart of the type that CAST names."""


def convert(vector: Vector, target: Target, *, lenient: bool) -> Vector:
    """Convert a vector that is convertible; ``lenient`` gives NULL for what has no counterpart.

    Raises
    ------
    ConversionError
        If a value has no counterpart.

    Examples
    --------
    >>> from cepheid.expressions.cast_types import TARGETS
    >>> from cepheid.expressions.vectors import constant
    >>> convert(constant(" 12 "), TARGETS["INT"], lenient=False).data
    array([12])
    """
    if vector.kind is ValueKind.UNKNOWN:
        return vector
    if vector.kind is _T:
        return vector if target.kind is _T else _from_texts(vector, target, lenient=lenient)
    if target.kind is _T:
        texts: Any = pa.array(vector.numbers).cast(pa.string())
        return Vector(texts, vector.valid, _T)
    if target.kind is ValueKind.TIMESTAMP:
        return vector._replace(kind=target.kind)
    numbers: NDArray[Any] = vector.numbers
    if target.kind is ValueKind.DATE:
        return Vector(numbers // _DAY_US * _DAY_US, vector.valid, target.kind)
    if target.kind is _B:
        return Vector(numbers != 0, vector.valid, _B)
    if target.kind is _D:
        return Vector(numbers.astype(np.float64), vector.valid, _D)
    low, high = target.bounds
    if numbers.dtype == np.float64:
        whole = np.trunc(numbers)
        # The largest number of 64 bits has no double of its own, the one after it has.
        inside = (whole >= float(low)) & (whole < float(high + 1))
        numbers = np.where(inside, whole, 0.0).astype(np.int64)
    else:
        numbers = numbers.astype(np.int64)
        inside = (numbers >= low) & (numbers <= high)
    return _checked(Vector(numbers, vector.valid, _I), vector, inside, lenient=lenient)


def _from_texts(vector: Vector, target: Target, *, lenient: bool) -> Vector:
    """Read texts as numbers or truth values, each distinct text once."""
    texts = vector.texts
    if not isinstance(texts, pa.DictionaryArray):
        texts = texts.dictionary_encode()
    plain = pc.utf8_trim(plain_texts(texts.dictionary), characters=WHITESPACE)
    read = {_B: _truths, _I: _wholes, _D: _doubles}[target.kind]
    values, fine = read(plain)
    if target.kind is _I:
        low, high = target.bounds
        fine &= (values >= low) & (values <= high)
    codes: Any = texts.indices.to_numpy(zero_copy_only=False)
    found = Vector(values[codes], vector.valid, target.kind)
    return _checked(found, vector, fine[codes], lenient=lenient)


def _truths(texts: Texts) -> tuple[NDArray[Any], Mask]:
    small = pc.utf8_lower(texts)
    yes, no = (
        np.array(pc.is_in(small, value_set=pa.array(words, small.type)).to_pylist(), np.bool_)
        for words in (TRUE_TEXTS, FALSE_TEXTS)
    )
    return yes, yes | no


def _wholes(texts: Texts) -> tuple[NDArray[Any], Mask]:
    fine = _matches(texts, WHOLE_TEXT)
    digits = pc.replace_substring_regex(texts, r"^\+", "")
    wide: Any = pc.if_else(pa.array(fine), digits, "0").cast(pa.decimal128(38, 0))
    inside = pc.and_(
        pc.greater_equal(wide, pa.scalar(INT64_MIN, wide.type)),
        pc.less_equal(wide, pa.scalar(INT64_MAX, wide.type)),
    )
    values: Any = pc.if_else(inside, wide, pa.scalar(0, wide.type)).cast(pa.int64())
    return values.to_numpy(), fine & np.array(inside.to_pylist(), np.bool_)


def _doubles(texts: Texts) -> tuple[NDArray[Any], Mask]:
    fine = _matches(texts, DOUBLE_TEXT)
    kept: Any = pc.if_else(pa.array(fine), texts, "0")
    try:
        return kept.cast(pa.float64()).to_numpy(), fine
    except pa.ArrowInvalid:
        # Arrow refuses some that Spark reads, such as what is larger than all doubles.
        return np.array([float(text) for text in kept.to_pylist()], np.float64), fine


def _matches(texts: Texts, pattern: str) -> Mask:
    found: Any = pc.match_substring_regex(texts, pattern)
    return np.array(found.to_pylist(), np.bool_)


def _checked(found: Vector, asked: Vector, fine: Mask, *, lenient: bool) -> Vector:
    """Return the converted values; a value without a counterpart is NULL or an error."""
    if fine.all():
        return found
    if lenient:
        return found._replace(valid=both_valid(found.valid, fine))
    wrong = ~fine if asked.valid is None else ~fine & asked.valid
    if not wrong.any():
        return found
    first = int(np.flatnonzero(wrong)[0])
    shown = repr(asked.texts[first].as_py()) if asked.kind is _T else f"{asked.numbers[first]}"
    message = f"{shown} cannot be converted"
    raise ConversionError(message)
