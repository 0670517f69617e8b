"""Convert two vectors to integers of a common order, for a separated predicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.events.decimals import Decimals, decimal_keys
from cepheid.events.schema import ValueKind
from cepheid.expressions.vectors import Vector, plain_texts, times_of
from cepheid.kernels.columns import order_keys

Keys = tuple[NDArray[np.int64], NDArray[np.int64]]
EXACT_DOUBLE = 2**53
"""Integers up to here are exact as doubles."""


def common_keys(left: Vector, right: Vector) -> Keys | None:
    """Compute keys of two vectors that compare as the values do (§4.6), ignoring NULL.

    None means that there are no such keys: integers beyond 2^53 beside doubles, or decimals
    without a machine representation beside others.
    """
    decimal = [isinstance(side.data, Decimals) for side in (left, right)]
    if any(decimal) and ValueKind.UNKNOWN not in (left.kind, right.kind):
        return _decimal_keys(left, right) if all(decimal) else None
    if left is right and left.kind not in (ValueKind.UNKNOWN, ValueKind.TEXT):
        keys = _double_keys(left.numbers) if left.numbers.dtype == np.float64 else left.numbers
        whole = keys.astype(np.int64, copy=False)
        return whole, whole
    if ValueKind.UNKNOWN in (left.kind, right.kind):
        return np.zeros(len(left.data), np.int64), np.zeros(len(right.data), np.int64)
    if {left.kind, right.kind} == {ValueKind.TEXT}:
        return _text_keys(left, right)
    left = times_of(left) if left.kind is ValueKind.TEXT else left
    right = times_of(right) if right.kind is ValueKind.TEXT else right
    a, b = left.numbers, right.numbers
    double = [side.dtype == np.float64 for side in (a, b)]
    if any(double):
        for side in (left, right):
            if side.numbers.dtype != np.float64 and _largest(side) > EXACT_DOUBLE:
                return None
        return _double_keys(a), _double_keys(b)
    return a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)


def _decimal_keys(left: Vector, right: Vector) -> Keys:
    assert isinstance(left.data, Decimals), "the caller has looked"
    assert isinstance(right.data, Decimals), "the caller has looked"
    return decimal_keys(left.data, right.data)


def _largest(vector: Vector) -> int:
    whole = vector.numbers if vector.valid is None else vector.numbers[vector.valid]
    return max(-int(whole.min()), int(whole.max())) if len(whole) else 0


def _double_keys(numbers: NDArray[Any]) -> NDArray[np.int64]:
    doubles = np.ascontiguousarray(numbers, np.float64)
    keys = np.empty(len(doubles), np.int64)
    order_keys(doubles.view(np.int64), False, keys)
    return keys


def _text_keys(left: Vector, right: Vector) -> Keys:
    """Rank the texts of both sides by code point."""
    texts: Any = pa.chunked_array(
        [plain_texts(side.texts).cast(pa.large_string()) for side in (left, right)]
    )
    encoded: Any = texts.combine_chunks().dictionary_encode()
    ranks = np.asarray(pc.rank(encoded.dictionary, sort_keys="ascending", tiebreaker="dense"))
    keys = ranks.astype(np.int64)[encoded.indices.to_numpy()]
    return keys[: len(left.data)], keys[len(left.data) :]
