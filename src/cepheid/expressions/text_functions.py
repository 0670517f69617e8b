"""Vectors of text in, vector out: the functions of text and LIKE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.schema import ValueKind
from cepheid.expressions.number_functions import piecewise
from cepheid.expressions.room import Room, byte_size
from cepheid.expressions.vectors import (
    NULL,
    Vector,
    both_valid,
    constant,
    full_length,
    map_texts,
    plain_texts,
    truth_of,
)

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask, Numbers, Texts


def _textual(function: Callable[[Texts], Numbers | Texts]) -> Callable[[Vector], Vector]:
    return lambda text: text._replace(data=map_texts(text.texts, function))


def _cased(
    ascii_function: Callable[[Texts], Texts], function: Callable[[str], str]
) -> Callable[[Texts], Texts]:
    """Return LOWER or UPPER; beyond ASCII, Arrow and Python do not agree on every letter."""

    def change(texts: Texts) -> Texts:
        if truth_of(pc.string_is_ascii(texts)).all():
            return ascii_function(texts)
        encoded = texts.dictionary_encode()
        changed = [function(str(text)) for text in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(
            encoded.indices, pa.array(changed, texts.type)
        ).dictionary_decode()

    return change


def _length(text: Vector) -> Vector:
    def count(texts: Texts) -> Numbers:
        lengths = pc.call_function("utf8_length", [texts])
        return np.asarray(lengths, np.int64)

    return Vector(map_texts(text.texts, count), text.valid, ValueKind.INTEGER, pa.int32())


def concat(*texts: Vector) -> Vector:
    """Return texts put together.

    Raises
    ------
    DataError
        E519 if they are too long: twice as long, again and again, is for ever.
    """
    length = max(len(t.data) for t in texts) if all(len(t.data) for t in texts) else 0
    columns = [plain_texts(t.texts) for t in texts]
    _check_length(columns, length)
    if length == 1:  # Arrow takes long to begin.
        joined = pa.array(["".join(str(column[0]) for column in columns)], pa.string())
        return Vector(joined, reduce(both_valid, [t.valid for t in texts]), ValueKind.TEXT)
    wide = any(pa.types.is_large_string(column.type) for column in columns)
    columns = [c.cast(pa.large_string()) if wide else c for c in columns]
    parts = [c if len(c) == length else c[0] for c in columns]
    data = pc.binary_join_element_wise(*parts, pa.scalar("", columns[0].type))
    return Vector(data, reduce(both_valid, [t.valid for t in texts]), ValueKind.TEXT)


def _substring(text: Vector, *extent: Vector) -> Vector:
    data = piecewise(
        text.texts, extent, lambda texts, *key: map_texts(texts, lambda t: _sliced(t, *key))
    )
    valid = reduce(both_valid, [v.valid for v in extent], text.valid)
    return Vector(data, valid, ValueKind.TEXT)


def _sliced(texts: Texts, start: int, length: int | None = None) -> Texts:
    """Return parts of texts; ``start`` counts from 1, or from the end if it is negative."""
    begin = start - 1 if start > 0 else start
    end = None if length is None else begin + max(0, length)
    if begin == end:
        begin = end = 0
    elif end is not None and begin < 0 <= end:
        end = None  # From the end and beyond it.
    return pc.utf8_slice_codeunits(texts, _bounded(begin), end if end is None else _bounded(end))


def _bounded(place: int) -> int:
    """Return a place in a text such that sums of two stay far from overflow."""
    return max(-(2**40), min(place, 2**40))


def _check_length(columns: Sequence[Texts], length: int) -> None:
    def total(size: Callable[[Any], int]) -> int:
        return sum((length // max(len(column), 1)) * size(column) for column in columns)

    room = Room()
    # What Arrow allocates is known at once, and is never less.
    if not room.has(total(lambda column: int(column.nbytes))):
        room.take(total(_byte_count))


def _byte_count(column: Any) -> int:
    return int(pc.sum(pc.call_function("binary_length", [column]).cast(pa.int64())).as_py() or 0)


def _rowwise(
    function: Callable[..., Any], texts: Sequence[Vector], kind: pa.DataType
) -> pa.Array[Any]:
    """Return a function of Python's texts for every row, for what Arrow has no function for."""
    length = max(len(t.data) for t in texts) if all(len(t.data) for t in texts) else 0
    columns = [plain_texts(full_length(t, length).texts).to_pylist() for t in texts]
    return pa.array([function(*row) for row in zip(*columns, strict=True)], kind)


def _all_valid(texts: Sequence[Vector]) -> Mask | None:
    return reduce(both_valid, [t.valid for t in texts])


def _replaced(text: Vector, old: Vector, new: Vector | None = None) -> Vector:
    """Return texts with a part replaced everywhere; no part is replaced by nothing."""
    new = constant("") if new is None else new
    texts, valid = (text, old, new), _all_valid((text, old, new))
    room = Room()

    def replace(one: str, a: str, b: str) -> str:
        size = byte_size if one.isascii() and b.isascii() else lambda part: 4 * len(part)
        room.take(size(one) + one.count(a) * (size(b) - size(a)) if a else 0)
        return one.replace(a, b) if a else one

    return Vector(_rowwise(replace, texts, pa.string()), valid, ValueKind.TEXT)


def _located(part: Vector, text: Vector, start: Vector | None = None) -> Vector:
    """Find the place of a part in texts, from 1 on and from a place on; 0 if there is none."""
    start = constant(1) if start is None else start
    values = (part, text, start)
    length = max(len(v.data) for v in values) if all(len(v.data) for v in values) else 0
    parts, texts = (plain_texts(full_length(t, length).texts).to_pylist() for t in (part, text))
    begins = full_length(start, length).data.tolist()
    rows = zip(parts, texts, begins, strict=True)
    found = [_place(str(one), str(two), int(begin)) for one, two, begin in rows]
    valid = reduce(both_valid, [part.valid, text.valid, start.valid])
    return Vector(np.array(found, np.int64), valid, ValueKind.INTEGER)


def _place(part: str, text: str, start: int) -> int:
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _starts_with(text: Vector, start: Vector) -> Vector:
    valid = both_valid(text.valid, start.valid)
    if len(start.data) == 1:
        one = str(plain_texts(start.texts)[0].as_py())
        data = map_texts(text.texts, lambda t: truth_of(pc.starts_with(t, pattern=one)))
        return Vector(data, valid, ValueKind.BOOLEAN)
    data = truth_of(_rowwise(str.startswith, (text, start), pa.bool_()))
    return Vector(data, valid, ValueKind.BOOLEAN)


def like(one: Vector, pattern: Vector, escape: str = "") -> Vector:
    """Find where texts are like patterns of ``%`` and ``_``; a backslash escapes, or another."""
    if ValueKind.UNKNOWN in (one.kind, pattern.kind):
        return NULL._replace(kind=ValueKind.BOOLEAN)
    encoded = plain_texts(pattern.texts).dictionary_encode()
    patterns = encoded.dictionary.to_pylist() or [""]
    codes = Vector(encoded.indices.to_numpy(), pattern.valid, ValueKind.INTEGER)
    matchers = [_matcher(str(one), escape) for one in patterns]
    data = piecewise(one.texts, [codes], lambda texts, code: map_texts(texts, matchers[code]))
    return Vector(data, both_valid(one.valid, pattern.valid), ValueKind.BOOLEAN)


def fixed_parts(pattern: str, escape: str) -> list[str]:
    r"""Return the texts between the wildcards of a pattern, which every text like it has.

    >>> fixed_parts(r"%a\%b_c", "")
    ['', 'a%b', 'c']
    """
    found = [""]
    for piece in _pieces(pattern, escape):
        if piece in ("%", "_"):
            found.append("")
        else:
            found[-1] += piece[-1]
    return found


def _pieces(pattern: str, escape: str) -> list[str]:
    """Cut a pattern into wildcards, characters, and characters behind an escape."""
    return re.findall(rf"{re.escape(escape or chr(92))}.|.", pattern, flags=re.DOTALL)


def _matcher(pattern: str, escape: str) -> Callable[[Texts], Mask]:
    """Return a function that says which texts are like a pattern."""
    parts = _pieces(pattern, escape)
    literal = "".join(part[-1] for part in parts if part not in ("%", "_"))
    shape = re.sub("x+", "x", "".join(part if part in ("%", "_") else "x" for part in parts))
    match shape:
        case "x":
            return lambda texts: truth_of(pc.equal(texts, pa.scalar(literal)))
        case "x%":
            return lambda texts: truth_of(pc.starts_with(texts, pattern=literal))
        case "%x":
            return lambda texts: truth_of(pc.ends_with(texts, pattern=literal))
        case "%x%":
            return lambda texts: truth_of(pc.match_substring(texts, pattern=literal))
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or f"\\x{{{ord(part[-1]):x}}}" for part in parts)
    whole = rf"(?s)\A(?:{regex})\z"
    return lambda texts: truth_of(pc.match_substring_regex(texts, pattern=whole))


TEXT_FUNCTIONS: dict[str, Callable[..., Vector]] = {
    "LOWER": _textual(_cased(pc.ascii_lower, str.lower)),
    "UPPER": _textual(_cased(pc.ascii_upper, str.upper)),
    "TRIM": _textual(lambda texts: pc.utf8_trim(texts, " ")),
    "LTRIM": _textual(lambda texts: pc.utf8_ltrim(texts, " ")),
    "RTRIM": _textual(lambda texts: pc.utf8_rtrim(texts, " ")),
    "LENGTH": _length,
    "CONCAT": concat,
    "SUBSTRING": _substring,
    "REPLACE": _replaced,
    "REVERSE": _textual(pc.utf8_reverse),
    "LOCATE": _located,
    "STARTS_WITH": _starts_with,
}
"""Functions of text, NULL if an argument is."""
