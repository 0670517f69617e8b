"""Arrow columns in, vectors out: whole columns as NumPy arrays or Arrow text, and how they compare.

A vector of one value stands for a column of any length, as NumPy broadcasts it, so constants are
never spread out. Comparisons follow docs/semantics.md §4.6.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import DataError, Diagnostic
from cepheid.events.comparisons import MIRRORED
from cepheid.events.decimals import Decimals, compare_decimals, read_decimals
from cepheid.events.nanoseconds import read_nanoseconds
from cepheid.events.schema import TEMPORAL, ValueKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]  # bool, int64 or float64
    Mask = NDArray[np.bool_]
    Texts = pa.Array[Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_DAY_US = 86_400_000_000
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())
_UNIT_US = {"s": 1_000_000, "ms": 1_000}


class LeftRangeError(ArithmeticError):
    """A whole number overflowed 64 bits."""


class MisfitError(TypeError):
    """The kinds of values do not go together; the message says what an expression is."""


class Vector(NamedTuple):
    """A column of values of one kind, or one value that stands for a whole column.

    Attributes
    ----------
    data
        BOOLEAN and UNKNOWN: bool; INTEGER: int64; TIMESTAMP, DATE, DURATION: int64 microseconds;
        DOUBLE: float64; DECIMAL: float64, or decimals that compare and no more (§4.10); TEXT: an
        Arrow array of strings without nulls, plain or dictionary-encoded; OTHER: an Arrow array.
        Arrays may be read-only, and what stands where a value is NULL means nothing.
    valid
        False where the value is NULL; None if no value is. NaN is a value.
    kind
        What the values are. UNKNOWN only where all of them are NULL.
    type
        The type of Arrow that the values had, where SQL gives it back: narrow numbers, times with
        a zone, decimals. None: the usual type of the kind.
    """

    data: Numbers | Texts | Decimals
    valid: Mask | None
    kind: ValueKind
    type: pa.DataType | None = None

    @property
    def numbers(self) -> Numbers:
        """Return the data of a vector that is not text; E570 for decimals that would be rounded."""
        if isinstance(self.data, Decimals):
            return self.data.numbers
        assert isinstance(self.data, np.ndarray), "text is no number"
        return self.data

    @property
    def texts(self) -> Texts:
        """Return the data of a vector of text."""
        assert isinstance(self.data, pa.Array), "a number is no text"
        return self.data


NULL = Vector(np.zeros(1, np.bool_), np.zeros(1, np.bool_), ValueKind.UNKNOWN)
"""One NULL."""


def constant(value: bool | float | str | None, digits: str = "") -> Vector:  # noqa: FBT001  # it is the value
    """Return a vector of one value, with digits that a double has not."""
    if digits:
        return Vector(Decimals.constant(digits), None, ValueKind.DOUBLE)
    if value is None:
        return NULL
    if isinstance(value, str):
        return Vector(pa.array([value], pa.string()), None, ValueKind.TEXT)
    kinds = {bool: ValueKind.BOOLEAN, int: ValueKind.INTEGER, float: ValueKind.DOUBLE}
    return Vector(np.array([value]), None, kinds[type(value)])


def full_length(vector: Vector, length: int) -> Vector:
    """Return a vector with one value spread over a whole column of a length."""
    data, valid = vector.data, vector.valid
    if len(data) != length:
        zeros = np.zeros(length, np.int32)
        if isinstance(data, np.ndarray):
            data = data[zeros]
        elif vector.kind is not ValueKind.TEXT:
            data = data.take(zeros)
        else:
            data = pa.DictionaryArray.from_arrays(zeros, plain_texts(vector.texts))
    if valid is not None and len(valid) != length:
        valid = None if valid[0] else np.zeros(length, np.bool_)
    return vector._replace(data=data, valid=valid)


def both_valid(a: Mask | None, b: Mask | None) -> Mask | None:
    """Find where two vectors both have a value."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


# ---------------------------------------------------------------------------------------
# Columns of Arrow


def vector_of(column: pa.Array[Any] | pa.ChunkedArray[Any], *, name: str = "") -> Vector:
    """Return a column of Arrow as a vector, without a copy where the layouts agree.

    Whole numbers of every width become int64 and floating-point numbers float64. Decimals become
    whole numbers or the doubles with the same digits, or stay what they are (§4.10). Times of every
    unit and zone become microseconds since 1970 in UTC, or stay what they are where those would
    round them (§4.11); dates become the microseconds of their midnight in UTC. Dictionary-encoded
    text stays so.

    Parameters
    ----------
    column
        A column of a table or of a record batch.
    name
        Its name, for messages.

    Raises
    ------
    DataError
        E503 if the column is of a type that expressions do not know, E504 if a number or a time of
        it does not fit 64 bits.

    Examples
    --------
    >>> vector_of(pa.array([3, None], pa.uint8())).kind.value
    'integer'
    >>> vector_of(pa.array([2_000], pa.timestamp("ns"))).data
    array([2])
    """
    array = _one_array(column)
    valid = truth_of(array.is_valid()) if array.null_count else None
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        assert isinstance(array, pa.DictionaryArray), "an array is of its type's class"
        return _dictionary_vector(array, valid, name)
    if kind in _TEXT_TYPES:
        return Vector(_without_nulls(_known_text(array)), valid, ValueKind.TEXT)
    if types.is_null(kind):
        return full_length(NULL, len(array))
    if types.is_boolean(kind):
        return Vector(truth_of(array.fill_null(False)), valid, ValueKind.BOOLEAN)
    if types.is_floating(kind):
        return Vector(_values(array).astype(np.float64, copy=False), valid, ValueKind.DOUBLE)
    if types.is_decimal(kind):
        data, value_kind = read_decimals(array, name)
        return Vector(data, valid, value_kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return Vector(array, valid, ValueKind.OTHER, kind)
    called = f"column `{name}`" if name else "a column"
    try:
        found = _whole_numbers(array, valid, name)
    except OverflowError:
        message = f"a whole number overflowed 64 bits in {called} of type {kind}"
        raise DataError([Diagnostic("E504", message)]) from None
    if found is None:
        message = f"{called} of type {kind} cannot be used in an expression"
        helps = ("give it another type before Cepheid reads it, or leave it out of the query",)
        raise DataError([Diagnostic("E503", message, helps=helps)])
    return Vector(found[0], valid, found[1])


def _whole_numbers(
    array: pa.Array[Any], valid: Mask | None, name: str
) -> tuple[NDArray[np.int64] | Decimals, ValueKind] | None:
    """View the values as int64; None if the type is not stored so."""
    types, kind = pa.types, array.type
    if types.is_integer(kind):
        if kind == pa.uint64():
            _refuse(_values(array) > np.uint64(INT64_MAX), valid)
        return _values(array).astype(np.int64, copy=False), ValueKind.INTEGER
    if types.is_date(kind):
        if types.is_date32(kind):
            days = _values(array.view(pa.int32())).astype(np.int64)
        else:
            days = _values(array.view(pa.int64())) // (_DAY_US // 1_000)
        return _scaled(days, valid, _DAY_US), ValueKind.DATE
    if types.is_timestamp(kind) or types.is_duration(kind):
        value_kind = ValueKind.TIMESTAMP if types.is_timestamp(kind) else ValueKind.DURATION
        steps = _values(array.view(pa.int64()))
        if kind.unit == "ns":
            return read_nanoseconds(steps, valid, name), value_kind
        if kind.unit != "us":
            steps = _scaled(steps, valid, _UNIT_US[kind.unit])
        return steps, value_kind
    return None


def _scaled(steps: NDArray[np.int64], valid: Mask | None, factor: int) -> NDArray[np.int64]:
    _refuse((steps > INT64_MAX // factor) | (steps < -(INT64_MAX // factor)), valid)
    return steps * factor


def _refuse(large: Mask, valid: Mask | None) -> None:
    if (large if valid is None else large & valid).any():
        raise OverflowError


def _one_array(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks > 1 and pa.types.is_string(column.type):
        # Offsets of 32 bits end at two gigabytes, which all chunks together may exceed.
        column = column.cast(pa.large_string())
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(array, pa.Array), "combined chunks are one array"
    return array


def _dictionary_vector(
    array: pa.DictionaryArray[Any, Any], valid: Mask | None, name: str
) -> Vector:
    values = array.dictionary
    if values.type not in _TEXT_TYPES or values.null_count:
        return vector_of(array.dictionary_decode(), name=name)
    # What stands under a NULL may point nowhere.
    indices: Any = array.indices if valid is None else array.indices.fill_null(0)
    values = _known_text(values) if len(values) else pa.array([""], pa.string())
    data = pa.DictionaryArray.from_arrays(indices, values, safe=False)
    return Vector(data, valid, ValueKind.TEXT)


def _known_text(array: pa.Array[Any]) -> Texts:
    # Not every function of Arrow takes views.
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _without_nulls(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return an array that shares the data of another and has a value everywhere."""
    if array.null_count == 0:
        return array
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)


def _values(array: pa.Array[Any]) -> NDArray[Any]:
    return _without_nulls(array).to_numpy()


def truth_of(array: pa.Array[Any]) -> Mask:
    """Return truth values of Arrow, none of them NULL."""
    if not len(array):
        return np.zeros(0, np.bool_)
    buffer: Any = array.buffers()[1]
    bits = np.frombuffer(buffer, np.uint8)
    start, end = array.offset // 8, (array.offset + len(array) + 7) // 8
    # Several times faster than Arrow's own way.
    every = np.unpackbits(bits[start:end], bitorder="little")
    return every[array.offset % 8 :][: len(array)].view(np.bool_)


# ---------------------------------------------------------------------------------------
# Text


def plain_texts(texts: Texts) -> Texts:
    """Return text that is not dictionary-encoded."""
    return texts.dictionary_decode() if isinstance(texts, pa.DictionaryArray) else texts


def map_texts(texts: Texts, function: Callable[[Texts], Numbers | Texts]) -> Numbers | Texts:
    """Return a function of every text, computed once for every entry of a dictionary."""
    if not isinstance(texts, pa.DictionaryArray) or len(texts.dictionary) > len(texts):
        return function(plain_texts(texts))
    result = function(texts.dictionary)
    if not isinstance(result, np.ndarray):
        return pa.DictionaryArray.from_arrays(texts.indices, result, safe=False)
    codes: NDArray[Any] = texts.indices.to_numpy()
    if result.dtype == np.bool_ and len(result) > 1:
        # To compare codes is ten times faster than to look them up.
        true_count = np.count_nonzero(result)
        if true_count == 1:
            return _ORDER["="](codes, int(np.argmax(result)))
        if true_count == len(result) - 1:
            return _ORDER["<>"](codes, int(np.argmin(result)))
    looked_up: NDArray[Any] = result[codes]
    return looked_up


def times_of(texts: Vector, zone: str | None = None) -> Vector:
    """Return text as times: ISO 8601, in a zone, or else UTC, if it names none (§4.6)."""
    encoded = plain_texts(texts.texts).dictionary_encode()
    times = np.zeros(len(encoded.dictionary), np.int64)
    naive = np.zeros(len(encoded.dictionary), np.bool_)
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            moment = dt.datetime.fromisoformat(str(text))
        except ValueError:
            wrong = encoded.indices.to_numpy() == code
            if (wrong if texts.valid is None else wrong & texts.valid).any():
                message = f"`{text}` is compared with a time but is not a valid time"
                helps = ("write times as '2026-01-31' or '2026-01-31 13:30:00'",)
                raise DataError([Diagnostic("E508", message, helps=helps)]) from None
        else:
            naive[code] = moment.tzinfo is None
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
            times[code] = (zoned - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(0, 0, 1)
    if zone is not None:
        times[naive] = _in_zone(times[naive], zone)
    return Vector(times[encoded.indices.to_numpy()], texts.valid, ValueKind.TIMESTAMP)


def zone_of(vector: Vector) -> str | None:
    """Return the zone of times that know one, which only those of SQL do."""
    kind: Any = vector.type
    return kind.tz if kind is not None and pa.types.is_timestamp(kind) else None


def in_one_zone(left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Return two vectors of which texts beside times are times.

    Texts, dates and times without a zone are those of the zone of the other side, else UTC.
    """
    zones = zone_of(left), zone_of(right)
    return _beside(left, zones[0], zones[1]), _beside(right, zones[1], zones[0])


def _beside(times: Vector, own: str | None, zone: str | None) -> Vector:
    if times.kind is ValueKind.TEXT:
        return times_of(times, zone)
    if own is not None or zone is None or times.kind not in TEMPORAL:
        return times
    data = _in_zone(times.numbers, zone)
    return Vector(data, times.valid, ValueKind.TIMESTAMP, pa.timestamp("us", zone))


def _in_zone(times: Numbers, zone: str) -> Numbers:
    """Return the times of clocks in a zone as microseconds in UTC."""
    local: Any = pc.assume_timezone(pa.array(times, pa.timestamp("us")), zone)
    whole: Numbers = local.cast(pa.int64()).to_numpy()
    return whole


# ---------------------------------------------------------------------------------------
# Comparison

_ORDER: dict[str, Callable[..., Mask]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def compare(operator: str, left: Vector, right: Vector) -> Vector:
    """Return ``left operator right`` for one of ``= <> < <= > >=``.

    Raises
    ------
    DataError
        E508 if a text is compared with a time and is not one.
    """
    if ValueKind.UNKNOWN in (left.kind, right.kind):
        return NULL._replace(kind=ValueKind.BOOLEAN)
    valid = both_valid(left.valid, right.valid)
    if ValueKind.OTHER in (left.kind, right.kind):
        return Vector(_compare_others(operator, left, right), valid, ValueKind.BOOLEAN)
    if {left.kind, right.kind} == {ValueKind.TEXT}:
        texts = _compare_texts(operator, left.texts, right.texts)
        return Vector(texts, valid, ValueKind.BOOLEAN)
    left, right = in_one_zone(left, right)
    decimal = [isinstance(side.data, Decimals) for side in (left, right)]
    # Beside a double, a constant is one too.
    if any(decimal) and {left.kind, right.kind} != {ValueKind.DOUBLE}:
        sides = [v.data if isinstance(v.data, Decimals) else v.numbers for v in (left, right)]
        return Vector(compare_decimals(operator, *sides), valid, ValueKind.BOOLEAN)
    a, b = left.numbers, right.numbers
    match a.dtype == np.float64, b.dtype == np.float64:
        case True, True:
            data = _compare_doubles(operator, a, b)
        case True, False:
            data = _compare_mixed(MIRRORED[operator], b, a)
        case False, True:
            data = _compare_mixed(operator, a, b)
        case _:
            data = _ORDER[operator](a, b)
    return Vector(data, valid, ValueKind.BOOLEAN)


def _compare_others(operator: str, left: Vector, right: Vector) -> Mask:
    """Compare what only Arrow knows: times of day, bytes, arrays."""
    sides = [left.data, right.data]
    length = max(map(len, sides)) if all(map(len, sides)) else 0
    a, b = (full_length(v, length).texts for v in (left, right))
    if not (pa.types.is_nested(a.type) or pa.types.is_nested(b.type)):
        return truth_of(pc.call_function(_ORDER[operator].__name__, [a, b]).fill_null(False))
    if operator not in ("=", "<>"):
        message = "a comparison of arrays, which know = and <> only"
        raise MisfitError(message)
    equal = [x == y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)]
    found: Mask = np.array(equal, np.bool_) == (operator == "=")
    return found


def _compare_texts(operator: str, a: Texts, b: Texts) -> Mask:
    """Compare text by code points, which is the order of the bytes of UTF-8."""
    if len(a) == 1 and len(b) != 1:
        return _compare_texts(MIRRORED[operator], b, a)
    name = _ORDER[operator].__name__  # Arrow and NumPy agree on names.
    if len(b) != 1:
        return truth_of(pc.call_function(name, [plain_texts(a), plain_texts(b)]))
    one = plain_texts(b)[0]
    found = map_texts(a, lambda texts: truth_of(pc.call_function(name, [texts, one])))
    assert isinstance(found, np.ndarray), "a comparison is true or false"
    return found


def _compare_doubles(operator: str, a: Numbers, b: Numbers) -> Mask:
    """Compare doubles; NaN equals itself and is greater than every other number.

    IEEE 754 says the same unless both sides have NaN or the greater side has, so that a comparison
    with a constant is one pass, and of two columns one more to look for NaN.
    """
    if operator in (">", ">="):
        operator, a, b = MIRRORED[operator], b, a
    if operator in ("=", "<>"):
        short, long = (a, b) if len(a) <= len(b) else (b, a)
        equal: Mask = a == b
        if _has_nan(short) and _has_nan(long):
            equal |= np.isnan(a) & np.isnan(b)
        return equal if operator == "=" else np.logical_not(equal, out=equal)
    if len(a) < len(b) and not _has_nan(a):
        opposite = _ORDER[">=" if operator == "<" else ">"](a, b)
        return np.logical_not(opposite, out=opposite)
    natural = _ORDER[operator](a, b)
    if _has_nan(b):
        natural |= np.isnan(b) & ~np.isnan(a) if operator == "<" else np.isnan(b)
    return natural


def _has_nan(doubles: Numbers) -> bool:
    return bool(len(doubles) and np.isnan(doubles.max()))


def _compare_mixed(operator: str, whole: Numbers, doubles: Numbers) -> Mask:
    """Compare whole numbers with doubles by value: neither side is rounded."""
    whole = whole.astype(np.int64, copy=False)
    if len(doubles) == 1:
        return _compare_constant(operator, whole, float(doubles[0]))
    # Up to 2**53 whole numbers are doubles too.
    if not len(whole) or max(-int(whole.min()), int(whole.max())) <= 2**53:
        return _compare_doubles(operator, whole.astype(np.float64), doubles)
    rounded = whole.astype(np.float64)
    # Where rounding made both sides equal, what was rounded away decides.
    back = np.where(rounded < 2.0**63, rounded, 0.0).astype(np.int64)
    rest = np.where(rounded < 2.0**63, np.sign(whole - back), -1)
    sign = np.where(rounded == doubles, rest, np.where(rounded > doubles, 1, -1))
    return _ORDER[operator](sign, 0)


def _compare_constant(operator: str, whole: Numbers, double: float) -> Mask:
    """Compare whole numbers with one double by way of the whole numbers next to it."""
    if math.isfinite(double):
        below, above = math.floor(double), math.ceil(double)
    else:
        below = above = -(2**64) if double < 0 else 2**64
    if below != above and operator in ("=", "<>"):
        return np.full(len(whole), operator == "<>")
    return _ORDER[operator](whole, above if operator in ("<", ">=") else below)
