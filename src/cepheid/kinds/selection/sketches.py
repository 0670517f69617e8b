"""Sketches: what APPROX_COUNT_DISTINCT and APPROX_PERCENTILE need, of a bounded size (§10.14).

A row keeps its values in a bag (``bags.py``) while they are few, so that answers are exact then and
many small groups cost no object each. A row with more values has a sketch of the library
``datasketches`` instead: HyperLogLog for distinct values, KLL for percentiles.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.kinds.selection.bags import Bags, bag_column, bags_from_table, bags_to_columns
from cepheid.kinds.selection.groups import Codes
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.selection import SKETCH_EXACT, SKETCHED, SelectFunction

EXACT_MAX = SKETCH_EXACT
"""The maximum number of distinct values in a bag."""
HLL_LG_K = 14
"""HyperLogLog of 2^14 registers: the relative error is below 2.44 % with probability 99.7 %."""
KLL_K = 400
"""KLL of this size: the error of the rank is below 0.68 % with probability 99 %."""
SKETCH_BYTES = 12_000
"""The approximate size of a full sketch."""
DOUBLE_MAX = float(np.finfo(np.float64).max)
EXACT_WHOLE = 1 << 53
"""Whole numbers below it are doubles, too."""
CHUNK_VALUES = 1 << 20
"""Repeated values that are added to a sketch at a time."""

Made = NDArray[np.object_]


class Sketches(NamedTuple):
    """For each row a bag of its values, or a sketch of them; one is empty or None."""

    function: SelectFunction
    bags: Bags
    made: Made

    @staticmethod
    def united(parts: Sequence[Sketches]) -> Sketches:
        """Concatenate rows."""
        bags = Bags.united([part.bags for part in parts])
        return Sketches(parts[0].function, bags, np.concatenate([part.made for part in parts]))

    @property
    def kind(self) -> ValueKind:
        """Return no kind: the values have a type of their own."""
        return ValueKind.UNKNOWN

    def take(self, rows: Codes) -> Sketches:
        """Select some of the rows."""
        return self._replace(bags=self.bags.take(rows), made=self.made[rows])

    def nothing(self) -> Sketches:
        """Build one row without values."""
        return self._replace(bags=self.bags.nothing(), made=_none(1))

    def reduced(self, begins: Codes) -> Sketches:
        """Merge runs of consecutive rows, which begin at ``begins``."""
        if not len(begins):
            return self.take(begins)
        runs = np.diff(begins, append=len(self.made))
        return self.gathered(np.repeat(np.arange(len(begins)), runs), len(begins))

    def gathered(self, slots: Codes, size: int) -> Sketches:
        """Merge the rows of each slot; one that has many values gets a sketch."""
        bags, made = self.bags.gathered(slots, size), _none(size)
        owned: dict[int, list[Any]] = {}
        for row in np.flatnonzero(self.made != None).tolist():  # noqa: E711 - of every element
            owned.setdefault(int(slots[row]), []).append(self.made[row])
        large = bags.known > EXACT_MAX
        large[list(owned)] = True
        for slot in np.flatnonzero(large).tolist():
            begin, end = int(bags.begins[slot]), int(bags.ends[slot])
            values, counts = bags.values.slice(begin, end - begin), bags.counts[begin:end]
            made[slot] = _sketch(self.function, owned.get(slot, []), values, counts)
        _check_size(int(large.sum()))
        if large.any():
            bags = bags._replace(ends=np.where(large, bags.begins, bags.ends))
            bags = bags.take(np.arange(size))
        return self._replace(bags=bags, made=made)

    def widened(self) -> Sketches:
        """Return the sketches: they do not overflow."""
        return self

    def folded(self, low: Codes, high: Codes) -> Sketches:
        """Merge the rows low to high - 1 of each window, which are consecutive."""
        if not len(self.made):
            return self.take(low)
        bags, made = self.bags.folded(low, high), _none(len(low))
        before = np.concatenate([[0], np.cumsum(self.made != None)])  # noqa: E711
        large = np.flatnonzero((before[high] > before[low]) | (bags.known > EXACT_MAX))
        if not len(large):
            return self._replace(bags=bags, made=made)
        folds = _Folds(self)
        found = _slid(folds.part, folds.join, low[large], high[large])
        values = folds.dictionary.take(np.concatenate([one.codes for one in found]))
        after = np.cumsum([len(one.codes) for one in found]) + len(bags.counts)
        begins, ends = bags.begins.copy(), bags.ends.copy()
        begins[large], ends[large] = np.append(len(bags.counts), after[:-1]), after
        for window, one in zip(large.tolist(), found, strict=True):
            made[window] = one.sketch
        counts = np.concatenate([bags.counts, *(one.counts for one in found)])
        values = pa.concat_arrays([bags.values, values.cast(bags.values.type)])
        return self._replace(bags=Bags(begins, ends, values, counts), made=made)


def _none(size: int) -> Made:
    return np.full(size, None, np.object_)


def _check_size(number: int) -> None:
    if number * SKETCH_BYTES > current().state:
        too_much_state("sketches", current().state // SKETCH_BYTES)


# ---------------------------------------------------------------------------------------
# Overlapping windows


class _Part(NamedTuple):
    """Few values, as sorted numbers of a dictionary, and their counts; or a sketch."""

    codes: Codes
    counts: Codes
    sketch: Any


class _Folds:
    """Merges the rows of windows, two at a time."""

    def __init__(self, sketches: Sketches) -> None:
        encoded = sketches.bags.values.dictionary_encode()
        codes: Any = encoded.indices.to_numpy(zero_copy_only=False)
        self.dictionary = encoded.dictionary
        self._codes: Codes = codes.astype(np.int64)
        self._rows = sketches

    def part(self, row: int) -> _Part:
        """Read a row."""
        bags = self._rows.bags
        own = slice(int(bags.begins[row]), int(bags.ends[row]))
        return self._merged([self._codes[own]], [bags.counts[own]], self._rows.made[row])

    def join(self, one: _Part, other: _Part) -> _Part:
        """Merge two parts into a new one."""
        codes, counts = [one.codes, other.codes], [one.counts, other.counts]
        if one.sketch is None and other.sketch is None:
            return self._merged(codes, counts, None)
        made = [part.sketch for part in (one, other) if part.sketch is not None]
        function, values = self._rows.function, self.dictionary.take(np.concatenate(codes))
        none = codes[0][:0]
        return _Part(none, none, _sketch(function, made, values, np.concatenate(counts)))

    def _merged(self, codes: list[Codes], counts: list[Codes], sketch: Any) -> _Part:
        found, places = np.unique(np.concatenate(codes), return_inverse=True)
        often = np.zeros(len(found), np.int64)
        np.add.at(often, places, np.concatenate(counts))
        if len(found) <= EXACT_MAX:
            return _Part(found, often, sketch)
        made = _sketch(self._rows.function, [], self.dictionary.take(found), often)
        return _Part(found[:0], often[:0], made)


def _slid(
    part: Callable[[int], _Part], join: Callable[[_Part, _Part], _Part], low: Codes, high: Codes
) -> list[_Part]:
    """Fold the rows low to high - 1 of each window; windows that follow each other share folds.

    A window is a fold of the rows before a cut, which are folded from the cut backwards, and one of
    the rows after it: each row is merged about twice, however many windows it is in.
    """
    found: list[_Part] = []
    back: dict[int, _Part] = {}
    front: _Part | None = None
    done = 0
    for begin, end in zip(low.tolist(), high.tolist(), strict=True):
        if begin not in back or end < done:
            back, front, done = {end - 1: part(end - 1)}, None, end
            for row in range(end - 2, begin - 1, -1):
                back[row] = join(part(row), back[row + 1])
        for row in range(done, end):
            front = part(row) if front is None else join(front, part(row))
        done = end
        found.append(back[begin] if front is None else join(back[begin], front))
    return found


# ---------------------------------------------------------------------------------------
# The library


def _library() -> Any:
    """Import ``datasketches``.

    Raises
    ------
    DataError
        E585 if it is not installed.
    """
    try:
        return importlib.import_module("datasketches")
    except ImportError:
        message = (
            "`APPROX_COUNT_DISTINCT` and `APPROX_PERCENTILE` need the package `datasketches`, "
            "which is not installed"
        )
        helps = (
            "install it: `pip install 'cepheid[sketches]'`",
            "`COUNT(DISTINCT x)` and `PERCENTILE(x, 0.9)` are exact, and need nothing",
        )
        raise DataError([Diagnostic("E585", message, helps=helps)]) from None


def sketches_of(bags: Bags, function: SelectFunction) -> Sketches:
    """Begin with the values of events, each in a bag of its own."""
    _library()
    return Sketches(function, bags, _none(len(bags.begins)))


def _sketch(function: SelectFunction, made: list[Any], values: pa.Array[Any], counts: Codes) -> Any:
    """Make a sketch of earlier ones, which stay as they are, and of values."""
    library = _library()
    if function is SelectFunction.APPROX_PERCENTILE:
        quantiles = library.kll_doubles_sketch(KLL_K)
        for one in made:
            quantiles.merge(one)
        numbers = _finite(np.asarray(values.cast(pa.float64())))
        for some in _repeated(numbers, counts):
            quantiles.update(some)
        return quantiles
    kind = library.tgt_hll_type.HLL_4
    distinct = library.hll_sketch(HLL_LG_K, kind)
    if made:
        union = library.hll_union(HLL_LG_K)
        for one in made:
            union.update(one)
        distinct = union.get_result(kind)
    # The library takes one value at a time; they are distinct, so they are few beside events.
    deque(map(distinct.update, _hashable(values)), maxlen=0)
    return distinct


def _repeated(numbers: NDArray[np.float64], counts: Codes) -> Iterator[NDArray[np.float64]]:
    """Repeat values as often as they come, a bounded number of them at a time."""
    while len(counts):
        now = np.minimum(counts, max(CHUNK_VALUES // len(counts), 1))
        yield np.repeat(numbers, now)
        more = counts > now
        numbers, counts = numbers[more], (counts - now)[more]


def _finite(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move NaN to infinity and infinity to the largest number: the library drops NaN."""
    finite = np.where(np.isposinf(numbers), DOUBLE_MAX, numbers)
    return np.where(np.isnan(finite), np.inf, finite)


def _hashable(values: pa.Array[Any]) -> list[Any]:
    """Convert distinct values to what the library hashes; equal numbers stay equal."""
    kind = values.type
    if pa.types.is_floating(kind):
        return list(values.to_pylist())
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    if pa.types.is_temporal(values.type):
        wide = pa.int32() if kind.bit_width == 32 else pa.int64()
        values = values.cast(wide)
    if pa.types.is_integer(values.type):
        found: list[Any] = values.to_pylist()
        return [float(one) if abs(one) < EXACT_WHOLE else one for one in found]
    return [one.hex() if isinstance(one, bytes) else str(one) for one in values.to_pylist()]


def sketch_column(sketches: Sketches, fraction: float | None) -> pa.Array[Any]:
    """Compute an aggregate of every row: exact from its bag, or estimated by its sketch."""
    exact = bag_column(sketches.bags, sketches.function, fraction)
    rows = np.flatnonzero(sketches.made != None)  # noqa: E711 - of every element
    if not len(rows):
        return exact
    if sketches.function is SelectFunction.APPROX_DISTINCT:
        estimates = [round(one.get_estimate()) for one in sketches.made[rows]]
    else:
        estimates = [_value(one.get_quantile(fraction, True)) for one in sketches.made[rows]]
    mask = np.zeros(len(exact), np.bool_)
    mask[rows] = True
    whole: pa.Array[Any] = pa.compute.replace_with_mask(
        exact, pa.array(mask), pa.array(estimates, exact.type)
    )
    return whole


def _value(number: float) -> float:
    """Undo ``_finite``."""
    if np.isposinf(number):
        return float("nan")
    return float("inf") if number == DOUBLE_MAX else number


# ---------------------------------------------------------------------------------------
# As columns of a table


def sketches_to_columns(sketches: Sketches, number: int) -> dict[str, pa.Array[Any]]:
    """Convert bags to columns of lists, and sketches to the library's own bytes."""
    compact = sketches.function is SelectFunction.APPROX_DISTINCT
    written = [
        None if one is None else one.serialize_compact() if compact else one.serialize()
        for one in sketches.made
    ]
    name = _column(sketches.function, number)
    return {
        **bags_to_columns(sketches.bags, number),
        name: pa.array(written, pa.large_binary()),
    }


def sketches_from_table(table: pa.Table, number: int) -> Sketches | None:
    """Read sketches back; None if the table has none with this number.

    Raises
    ------
    DataError
        E546 if the bytes are no sketch.
    """
    function = next((f for f in SKETCHED if _column(f, number) in table.column_names), None)
    if function is None:
        return None
    library, made = _library(), _none(len(table))
    distinct = function is SelectFunction.APPROX_DISTINCT
    kind = library.hll_sketch if distinct else library.kll_doubles_sketch
    for row, written in enumerate(table[_column(function, number)].to_pylist()):
        try:
            made[row] = None if written is None else kind.deserialize(written)
        except (ValueError, IndexError, RuntimeError) as error:
            message = f"the state of a SELECT is damaged: a sketch in it cannot be read: {error}"
            helps = ("take the state from a copy, or begin anew",)
            raise DataError([Diagnostic("E546", message, helps=helps)]) from error
    return Sketches(function, bags_from_table(table, number), made)


def _column(function: SelectFunction, number: int) -> str:
    return f"sketch{number} {function.value}"
