"""Bags of values: what COUNT(DISTINCT) and PERCENTILE need, which no partial aggregate answers.

A bag holds the distinct values of some events, and how often each one comes. Bags are merged as
moments are (``moments.py``), so windows of every kind take them. The state is the distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.vectors import Vector
from cepheid.kinds.selection.groups import Codes, canonical_array, stable_order
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.selection import COUNTS_DISTINCT, PERCENTILES, SelectFunction

BLOCK_VALUES = 1 << 22
"""Values of windows that are looked at together."""
VALUES_MAX = 1 << 30
"""Maximum number of values of all windows of one result; overlapping ones count them again."""
VALUE_BYTES = 16
"""The approximate size of a value in a bag: itself, and its count."""


class Bags(NamedTuple):
    """One bag for each row: the values [begins, ends) and their counts; bags may overlap."""

    begins: Codes
    ends: Codes
    values: pa.Array[Any]
    counts: Codes

    @staticmethod
    def united(parts: Sequence[Bags]) -> Bags:
        """Concatenate bags; a column of only NULLs takes the kind of the others."""
        known = [part for part in parts if not pa.types.is_null(part.values.type)]
        type_ = known[0].values.type if known else pa.null()
        if len({part.values.type for part in known}) > 1:
            type_ = pa.float64()
        offsets = np.cumsum([0, *(len(part.counts) for part in parts)])[:-1]
        return Bags(
            np.concatenate([p.begins + o for p, o in zip(parts, offsets, strict=True)]),
            np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=True)]),
            pa.concat_arrays([part.values.cast(type_) for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    @property
    def kind(self) -> ValueKind:
        """Return no kind: the values have a type of their own."""
        return ValueKind.UNKNOWN

    @property
    def known(self) -> Codes:
        """Return the number of rows, as that of moments."""
        return self.ends - self.begins

    def take(self, rows: Codes) -> Bags:
        """Select some of the bags, and their values."""
        return self._of(self.begins[rows], self.ends[rows])

    def nothing(self) -> Bags:
        """Build one empty bag."""
        none = np.zeros(1, np.int64)
        return self._replace(begins=none, ends=none)

    def reduced(self, begins: Codes) -> Bags:
        """Merge runs of consecutive bags, which begin at ``begins``."""
        if not len(begins):
            return self.take(begins)
        return self._merged(np.repeat(np.arange(len(begins)), self._runs(begins)), len(begins))

    def _runs(self, begins: Codes) -> Codes:
        return np.diff(begins, append=len(self.begins))

    def gathered(self, slots: Codes, size: int) -> Bags:
        """Merge the bags of each slot."""
        return self._merged(slots, size)

    def widened(self) -> Bags:
        """Return the bags: they do not overflow."""
        return self

    def folded(self, low: Codes, high: Codes) -> Bags:
        """Give each window the values of the bags low to high - 1, which are consecutive."""
        if not len(self.begins):
            return self.take(low)
        return self._replace(begins=self.begins[low], ends=self.ends[high - 1])

    def _of(self, begins: Codes, ends: Codes) -> Bags:
        """Copy the values of some bags, one bag after the other."""
        sizes = ends - begins
        places = _ranges(begins, sizes)
        after = np.cumsum(sizes)
        values = self.values.take(places)
        return Bags(after - sizes, after, values, self.counts[places])

    def _merged(self, owners: Codes, size: int) -> Bags:
        """Merge the bags of each owner; equal values become one."""
        whole = self._of(self.begins, self.ends)
        rows = np.repeat(owners, whole.ends - whole.begins)
        encoded = whole.values.dictionary_encode()
        codes: Any = encoded.indices.to_numpy(zero_copy_only=False)
        keys = rows * max(len(encoded.dictionary), 1) + codes
        found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.zeros(len(found), np.int64)
        np.add.at(counts, inverse, whole.counts)
        if len(found) * VALUE_BYTES > current().state:
            too_much_state("distinct values", current().state // VALUE_BYTES)
        after = np.cumsum(np.bincount(rows[first], minlength=size))
        begins = np.concatenate([np.zeros(1, np.int64), after])[:-1]
        return Bags(begins, after, whole.values.take(first), counts)


def _ranges(begins: Codes, sizes: Codes) -> Codes:
    """Concatenate ranges of numbers."""
    offsets = np.cumsum(sizes) - sizes
    places: Codes = np.arange(int(sizes.sum())) + np.repeat(begins - offsets, sizes)
    return places


def bags_of(vector: Vector, function: SelectFunction) -> Bags:
    """Put every value that is not NULL into a bag of its own."""
    if vector.kind is ValueKind.UNKNOWN:
        return bags_of_array(pa.nulls(len(vector.data)))
    if function in PERCENTILES:
        vector = Vector(vector.numbers.astype(np.float64), vector.valid, ValueKind.DOUBLE)
    return bags_of_array(arrow_of(vector))


def bags_of_array(array: pa.Array[Any]) -> Bags:
    """Put every value of an array that is not NULL into a bag of its own."""
    some = np.asarray(array.is_valid()).astype(np.int64)
    after = np.cumsum(some)
    kept = canonical_array(array.drop_null())
    return Bags(after - some, after, kept, np.ones(len(kept), np.int64))


def bag_column(bags: Bags, function: SelectFunction, fraction: float | None) -> pa.Array[Any]:
    """Compute an aggregate of every bag."""
    _check_count(float(bags.known.sum(dtype=np.float64)))
    blocks = [np.zeros(0, np.float64)]
    known = [np.zeros(0, np.bool_)]
    for rows in _blocks(bags):
        part = bags.take(rows)
        owners = np.repeat(np.arange(len(rows)), part.known)
        if function in COUNTS_DISTINCT:
            blocks.append(_distinct(part, owners))
            continue
        assert fraction is not None, "a percentile has a fraction"
        known.append(part.known > 0)
        between = function is SelectFunction.PERCENTILE
        blocks.append(_percentiles(part, owners, fraction, between=between))
    values = np.concatenate(blocks)
    if function in COUNTS_DISTINCT:
        counted: pa.Array[Any] = pa.array(values.astype(np.int64))
        return counted
    found: pa.Array[Any] = arrow_of(Vector(values, np.concatenate(known), ValueKind.DOUBLE))
    return found


def _check_count(count: float) -> None:
    """Refuse more values than can be looked at in a minute or so."""
    if count > VALUES_MAX:
        message = (
            f"overlapping windows hold about {count:.3g} values for `COUNT(DISTINCT)` or "
            f"`PERCENTILE`, more than the maximum of {VALUES_MAX:,}"
        )
        raise DataError([Diagnostic("E511", message, helps=("use a longer slide",))])


def _blocks(bags: Bags) -> Iterator[Codes]:
    """Divide the bags so that each part has a bounded number of values."""
    total = np.cumsum(bags.known)
    begin = 0
    while begin < len(total):
        done = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, done + BLOCK_VALUES, side="right")), begin + 1)
        yield np.arange(begin, end)
        begin = end


def _distinct(bags: Bags, owners: Codes) -> NDArray[np.float64]:
    encoded = bags.values.dictionary_encode()
    codes: Any = encoded.indices.to_numpy(zero_copy_only=False)
    size = max(len(encoded.dictionary), 1)
    pairs = np.unique(owners * size + codes)
    return np.bincount(pairs // size, minlength=len(bags.begins)).astype(np.float64)


def _percentiles(
    bags: Bags, owners: Codes, fraction: float, *, between: bool
) -> NDArray[np.float64]:
    """Find the values at a place, as Spark's ``percentile_approx`` does where it is exact.

    ``between`` interpolates between the two values around it, as Spark's ``percentile`` does.
    """
    values: NDArray[np.float64] = np.asarray(bags.values.cast(pa.float64()))
    order = np.argsort(values, kind="stable")  # NaN is the largest.
    order = order[stable_order(owners[order])]
    values, counts = values[order], bags.counts[order]
    after = np.cumsum(counts)
    before = np.concatenate([np.zeros(1, np.int64), after])
    base, sizes = before[bags.begins], before[bags.ends] - before[bags.begins]
    place = np.maximum(sizes - 1, 0) * fraction
    if not between:
        place = np.maximum(np.ceil(sizes * fraction) - 1, 0)
    low, high = np.floor(place), np.ceil(place)
    last = max(len(values) - 1, 0)
    if not len(values):
        return np.zeros(len(sizes), np.float64)
    ends = [
        values[np.minimum(np.searchsorted(after, base + at.astype(np.int64), "right"), last)]
        for at in (low, high)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        inner = (high - place) * ends[0] + (place - low) * ends[1]
    same = (low == high) | (ends[0] == ends[1]) | (np.isnan(ends[0]) & np.isnan(ends[1]))
    chosen: NDArray[np.float64] = np.where(same, ends[0], inner)
    return chosen


# ---------------------------------------------------------------------------------------
# As columns of a table


def bags_to_columns(bags: Bags, number: int) -> dict[str, pa.Array[Any]]:
    """Convert bags to columns of lists."""
    whole = bags._of(bags.begins, bags.ends)
    offsets = pa.array(np.append(whole.begins, len(whole.counts)), pa.int64())
    return {
        f"bag{number}": pa.LargeListArray.from_arrays(offsets, whole.values),
        f"often{number}": pa.LargeListArray.from_arrays(offsets, pa.array(whole.counts)),
    }


def bags_from_table(table: pa.Table, number: int) -> Bags:
    """Read bags back."""
    values: Any = table[f"bag{number}"].combine_chunks()
    often: Any = table[f"often{number}"].combine_chunks()
    sizes = np.asarray(pa.compute.list_value_length(values)).astype(np.int64)
    after = np.cumsum(sizes)
    counts = np.asarray(often.flatten()).astype(np.int64)
    return Bags(after - sizes, after, values.flatten(), counts)
