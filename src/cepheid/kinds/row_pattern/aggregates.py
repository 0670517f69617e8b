"""Columns over the rows of matches in, running or final aggregates out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.decimals import DIGITS_MAX
from cepheid.expressions.arrow import Value, is_text, pa, pc
from cepheid.expressions.room import Room, byte_size
from cepheid.kernels.segments import running_count, running_extreme, running_sum
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import Rows, as_whole

Mask = NDArray[np.bool_]
VALUE_BYTES = 8
"""The least number of bytes of a value in a list."""


def aggregate(
    node: tree.Aggregate,
    arguments: Sequence[Value],
    use: Mask,
    segments: Rows,
    offsets: Rows,
    current: Rows,
    text: str,
) -> Value:
    """Return an aggregate for every output row.

    Parameters
    ----------
    node
        The aggregate.
    arguments
        Its arguments for every row of every match.
    use
        Which of these rows count.
    segments
        Where the rows of each match begin and end.
    offsets, current
        For every output row: where the rows of its match begin, and the place of the current row.
    text
        The SQL text, for messages.

    Raises
    ------
    DataError
        E614 if a sum leaves 64 bits.
    TypeError
        If the aggregate does not take arguments of this type.
    """
    simple = not node.distinct and len(arguments) == 1
    kind = arguments[0].type
    if simple and node.name not in _COLLECTED and not pa.types.is_decimal(kind):
        value = _running(node, arguments[0], use, segments, text)
        if value is not None:
            places = np.where(current >= 0, offsets + current, 0)
            if node.name in ("COUNT", "COUNT_IF"):
                counts = value.to_numpy()[places] if len(value) else np.zeros(len(places), np.int64)
                return pa.array(np.where(current >= 0, counts, 0))
            return value.take(pa.array(places, mask=current < 0))
    return _collected(node, arguments, use, offsets, current)


# ---------------------------------------------------------------------------------------
# In one pass over all rows


def _running(
    node: tree.Aggregate, argument: Value, use: Mask, segments: Rows, text: str
) -> Value | None:
    """Return the aggregate after every row, or None if there is no such way for its type."""
    logical = node.name in ("COUNT_IF", "BOOL_OR", "BOOL_AND", "EVERY")
    if logical and not pa.types.is_boolean(argument.type):
        message = f"{node.name} takes a condition, not {argument.type}"
        raise TypeError(message)
    if argument.null_count:
        use = use & argument.is_valid().to_numpy(zero_copy_only=False)
    if node.name == "COUNT_IF":
        use = use & argument.fill_null(False).to_numpy(zero_copy_only=False)
    counts = np.empty(len(use), np.int64)
    running_count(segments, use, counts)
    if node.name in ("COUNT", "COUNT_IF"):
        return pa.array(counts)
    if node.name in ("BOOL_OR", "BOOL_AND", "EVERY"):
        truth = argument.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
        out = _extreme(truth, use, segments, largest=node.name == "BOOL_OR")
        return pa.array(out != 0, mask=counts == 0)
    if node.name in ("SUM", "AVG"):
        return _running_sum(node, argument, use, segments, counts, text)
    return _running_extreme(node, argument, use, segments, counts)


def _running_sum(
    node: tree.Aggregate,
    argument: Value,
    use: Mask,
    segments: Rows,
    counts: Rows,
    text: str,
) -> Value:
    kind = argument.type
    duration = pa.types.is_duration(kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or duration):
        if not pa.types.is_null(kind):
            message = f"{node.name} takes numbers, not {kind}"
            raise TypeError(message)
        argument = argument.cast(pa.int64())
    floating = pa.types.is_floating(kind)
    if duration:
        argument = argument.cast(pa.duration("us")).view(pa.int64())
    filled: Any = argument.fill_null(0)
    values = filled.to_numpy().astype(np.float64 if floating else np.int64, copy=False)
    out = np.empty(len(values), values.dtype)
    if node.name == "AVG" and not duration:
        values = values.astype(np.float64, copy=False)
        out = np.empty(len(values), np.float64)
    with np.errstate(over="ignore"):  # It says so itself.
        wrapped = running_sum(segments, use, values, out)
    if wrapped and out.dtype == np.int64:
        message = "a sum of whole numbers overflowed 64 bits"
        helps = ("convert them to doubles: `SUM(1.0 * x)`",)
        raise DataError([Diagnostic("E614", message, node.span, helps=helps)], text)
    if node.name == "AVG":
        mean = out / np.maximum(counts, 1)
        out = mean if not duration else np.floor(mean).astype(np.int64)
    if duration:
        return pa.array(out, mask=counts == 0).view(pa.duration("us"))
    return pa.array(out, mask=counts == 0)


def _extreme(values: NDArray[Any], use: Mask, segments: Rows, *, largest: bool) -> NDArray[Any]:
    out = np.empty(len(values), values.dtype)
    running_extreme(segments, use, values, largest, out)
    return out


def _running_extreme(
    node: tree.Aggregate, argument: Value, use: Mask, segments: Rows, counts: Rows
) -> Value | None:
    kind = argument.type
    largest = node.name == "MAX"
    if pa.types.is_floating(kind):
        doubles = argument.fill_null(0).to_numpy().astype(np.float64, copy=False)
        out = _extreme(doubles, use, segments, largest=largest)
        return pa.array(out, mask=counts == 0).cast(kind)
    if is_text(kind):
        encoded: Any = argument.dictionary_encode()
        values = encoded.dictionary
        order = np.asarray(pc.sort_indices(values))
        ranks = np.empty(len(values), np.int64)
        ranks[order] = np.arange(len(values))
        indices = encoded.indices.fill_null(0).to_numpy()
        codes = ranks[indices] if len(values) else np.zeros(len(argument), np.int64)
        out = _extreme(codes, use, segments, largest=largest)
        return values.take(pa.array(order)).take(pa.array(out, mask=counts == 0))
    if pa.types.is_time(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return None
    filled = argument if argument.null_count == 0 else pc.fill_null(argument, pc.min(argument))
    if filled.null_count:  # Nothing but NULLs.
        return argument
    whole = as_whole(filled)
    if whole is None:
        return None
    out = _extreme(whole, use, segments, largest=largest)
    if pa.types.is_date32(kind):
        return pa.array(out.astype(np.int32), mask=counts == 0).view(kind)
    if pa.types.is_integer(kind):
        return pa.array(out, mask=counts == 0).cast(kind)
    return pa.array(out, mask=counts == 0).view(kind)


# ---------------------------------------------------------------------------------------
# From lists of values, for the aggregates that need them


def _collected(
    node: tree.Aggregate,
    arguments: Sequence[Value],
    use: Mask,
    offsets: Rows,
    current: Rows,
) -> Value:
    function = collector(node)
    result_type = collected_type(node, [argument.type for argument in arguments])
    columns = [argument.to_pylist() for argument in arguments]
    places = np.flatnonzero(use)
    begins = np.searchsorted(places, offsets)
    ends = np.searchsorted(places, offsets + current, side="right")
    rows = list(zip(*columns, strict=True))
    taken = [rows[i] for i in places.tolist()]
    _check_room(node, taken, begins, ends)
    found = [
        function(taken[begin:end])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return pa.array(found, result_type)


def _check_room(node: tree.Aggregate, taken: Collected, begins: Rows, ends: Rows) -> None:
    """Refuse lists and texts that grow with every row before they are made.

    Raises
    ------
    DataError
        E519
    """
    if node.name in ("STRING_AGG", "LISTAGG"):
        count = len(node.arguments) - len(node.ordering)
        sizes = [sum(byte_size(str(cell)) for cell in row[:count]) for row in taken]
    elif node.name in ("ARRAY_AGG", "COLLECT_LIST") and not node.distinct:
        sizes = [VALUE_BYTES] * len(taken)
    else:
        return
    upto = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))])
    Room("bytes of values").take(int((upto[ends] - upto[begins]).sum()))


Collected = Sequence[tuple[Any, ...]]


def collector(node: tree.Aggregate) -> Callable[[Collected], object]:
    """Return an aggregate as a function of the rows that count."""
    plain = _unsorted(node)
    if not node.ordering:
        return plain
    count = len(node.arguments) - len(node.ordering)
    return lambda rows: plain([row[:count] for row in _sorted_rows(rows, node.ordering)])


def _sorted_rows(rows: Collected, ordering: Sequence[tree.Ordering]) -> Collected:
    """Return rows in the order of their last values; equal ones stay as they are."""
    found = list(rows)
    for place, how in zip(range(-1, -1 - len(ordering), -1), reversed(ordering), strict=True):
        nulls = [row for row in found if row[place] is None]
        others = [row for row in found if row[place] is not None]
        # NaN, which alone differs from itself, is the largest number.
        others.sort(
            key=lambda row: (row[place] != row[place], row[place]),  # used at once
            reverse=how.descending,
        )
        found = nulls + others if how.nulls_first else others + nulls
    return found


def _unsorted(node: tree.Aggregate) -> Callable[[Collected], object]:
    name, distinct = node.name, node.distinct
    count = len(node.arguments) - len(node.ordering)

    def values(rows: Collected) -> list[Any]:
        present = [row[0] for row in rows if row[0] is not None]
        return list(dict.fromkeys(present)) if distinct else present

    if name in ("ARRAY_AGG", "COLLECT_LIST"):
        return lambda rows: _array_agg(rows, distinct=distinct, nulls=name == "ARRAY_AGG")
    if name in ("MIN_BY", "MAX_BY"):
        return _extreme_by(largest=name == "MAX_BY", many=count == 3)
    if name in ("STRING_AGG", "LISTAGG"):
        return lambda rows: _join(rows, distinct=distinct)
    if name in ("MIN", "MAX") and count == 2:
        return _several(largest=name == "MAX")
    if name == "HISTOGRAM":
        return lambda rows: [*Counter(values(rows)).items()] or None
    if name == "MAP_AGG":
        return _map_agg
    fold = _SIMPLE[name][0]
    return lambda rows: fold(values(rows))


def collected_type(node: tree.Aggregate, kinds: Sequence[Any]) -> Any:
    """Return the type of an aggregate over arguments of these types."""
    name, kind = node.name, kinds[0]
    # The keys of a map have a type even where there is none.
    key = pa.string() if pa.types.is_null(kind) else kind
    if name in ("ARRAY_AGG", "COLLECT_LIST"):
        return pa.list_(kind)
    if name in ("MIN_BY", "MAX_BY"):
        return pa.list_(kind) if len(kinds) == 3 else kind
    if name in ("STRING_AGG", "LISTAGG"):
        return pa.string()
    if name in ("MIN", "MAX") and len(kinds) == 2:
        return pa.list_(kind)
    if name == "HISTOGRAM":
        return pa.map_(key, pa.int64())
    if name == "MAP_AGG":
        return pa.map_(key, kinds[1])
    if name == "SUM" and pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if name == "SUM" and pa.types.is_integer(kind):
        return pa.int64()
    result = _SIMPLE[name][1]
    return kind if result == "same" else result


def _array_agg(rows: Collected, *, distinct: bool, nulls: bool) -> list[Any] | None:
    found = [row[0] for row in rows if nulls or row[0] is not None]
    if distinct:
        found = list(dict.fromkeys(found))
    return found or None


def _extreme_by(*, largest: bool, many: bool) -> Callable[[Collected], object]:
    def choose(rows: Collected) -> object:
        ranked = sorted(
            (row for row in rows if row[1] is not None), key=lambda row: row[1], reverse=largest
        )
        if many:
            count = rows[0][2] if rows else 0
            return [row[0] for row in ranked[:count]] or None
        return ranked[0][0] if ranked else None

    return choose


def _several(*, largest: bool) -> Callable[[Collected], object]:
    """Return MIN or MAX with a number of values: the smallest or largest of them, in order."""

    def choose(rows: Collected) -> object:
        present = [row for row in rows if row[0] is not None]
        ranked = sorted((row[0] for row in present), reverse=largest)
        return ranked[: present[0][1]] if present else None

    return choose


def _map_agg(rows: Collected) -> list[tuple[Any, Any]] | None:
    return [*{row[0]: row[1] for row in rows if row[0] is not None}.items()] or None


def _join(rows: Collected, *, distinct: bool) -> str | None:
    present = [row for row in rows if row[0] is not None]
    if not present:
        return None
    mark = present[0][1] if len(present[0]) > 1 else ""
    texts = [str(row[0]) for row in present]
    return str(mark).join(dict.fromkeys(texts) if distinct else texts)


def exact_sum(values: Sequence[Any]) -> Any:
    """Return a sum of which no digit of a decimal is lost, None of no values."""
    # Python's own decimals end at 28 digits, Arrow's at 76.
    with localcontext(prec=DIGITS_MAX):
        return sum(values) if values else None


def _mean(values: list[Any]) -> float | None:
    return float(exact_sum(values)) / len(values) if values else None


def _variance(values: list[Any], spare: int) -> float | None:
    numbers = [float(value) for value in values]
    if len(numbers) <= spare:
        return None
    mean = math.fsum(numbers) / len(numbers)
    return math.fsum((x - mean) ** 2 for x in numbers) / (len(numbers) - spare)


def _deviation(values: list[Any], spare: int) -> float | None:
    variance = _variance(values, spare)
    return None if variance is None else math.sqrt(variance)


_SIMPLE: dict[str, tuple[Callable[[list[Any]], object], Any]] = {
    "COUNT": (len, pa.int64()),
    "COUNT_IF": (lambda values: sum(map(bool, values)), pa.int64()),
    "SUM": (exact_sum, "same"),
    "AVG": (_mean, pa.float64()),
    "MIN": (lambda values: min(values, default=None), "same"),
    "MAX": (lambda values: max(values, default=None), "same"),
    "BOOL_OR": (lambda values: any(values) if values else None, pa.bool_()),
    "BOOL_AND": (lambda values: all(values) if values else None, pa.bool_()),
    "EVERY": (lambda values: all(values) if values else None, pa.bool_()),
    "ANY_VALUE": (lambda values: values[0] if values else None, "same"),
    "ARBITRARY": (lambda values: values[0] if values else None, "same"),
    "STDDEV": (lambda values: _deviation(values, 1), pa.float64()),
    "STDDEV_SAMP": (lambda values: _deviation(values, 1), pa.float64()),
    "STDDEV_POP": (lambda values: _deviation(values, 0), pa.float64()),
    "VARIANCE": (lambda values: _variance(values, 1), pa.float64()),
    "VAR_SAMP": (lambda values: _variance(values, 1), pa.float64()),
    "VAR_POP": (lambda values: _variance(values, 0), pa.float64()),
}

_COLLECTED = frozenset(name for name in _SIMPLE if name[:3] in ("STD", "VAR")) | {
    "ARRAY_AGG",
    "COLLECT_LIST",
    "MIN_BY",
    "MAX_BY",
    "STRING_AGG",
    "LISTAGG",
    "HISTOGRAM",
    "MAP_AGG",
    "ANY_VALUE",
    "ARBITRARY",
}
"""Aggregates that need the values themselves."""
