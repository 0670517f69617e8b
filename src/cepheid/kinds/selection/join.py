"""Windowed join: two tables in time order in, pairs of their events out (§10.6).

The window restricts each event to a range of the other stream. Conditions on one stream filter its
events, equality conditions become hash keys, and the remaining conditions are evaluated on blocks
of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.events.nanoseconds import PER_MICROSECOND, is_nanoseconds, type_of_times
from cepheid.events.schema import ValueKind
from cepheid.events.temporal import TIME_MAX
from cepheid.expressions.vectors import Vector
from cepheid.kinds.selection.groups import Codes, group_codes, stable_order
from cepheid.kinds.selection.operators import ON_CPU, Candidates, Joined, Operators, Pairs
from cepheid.kinds.selection.rows import Rows, holds, lookup_in, project
from cepheid.language import tree
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.selection import Extent, Selection, aliases_in

HASHED = (ValueKind.TEXT, ValueKind.INTEGER, ValueKind.BOOLEAN)
"""The kinds whose equality is that of their bits."""


class Side(NamedTuple):
    """One stream of a join: its columns and times, the filter of its own conditions, and keys.

    ``codes`` are the numbers of the events' keys, -1 for NULL.
    """

    alias: str
    columns: Columns
    times: Rows
    kept: NDArray[np.bool_]
    codes: Codes


class ManyPairsError(Exception):
    """There are more pairs than the caller takes at once; it asks for parts of them."""


PAIR_BYTES = 64
"""The approximate size of a pair: two row numbers, their order, and a row of a few columns."""


def join_tables(
    select: Selection,
    time: str,
    tables: Sequence[pa.Table],
    begins: tuple[int, int] = (0, 0),
    most: int | None = None,
    by: Operators = ON_CPU,
) -> pa.Table:
    """Join two streams; the pairs are in the order in which their later events came.

    The later event is one of its stream's rows from ``begins`` on; earlier rows were joined
    already.

    Raises
    ------
    ManyPairsError
        If there are more pairs than ``most``.
    """
    (left, right), rest = _sides(select, time, tables)
    blocks: list[Pairs] = []
    count, bound = 0, current().state // PAIR_BYTES
    joined = Joined(rest, _lookup(left, right))
    candidates = _candidates(select, left, right, begins)
    for block in chain.from_iterable(by.match(joined, one) for one in candidates):
        blocks.append(block)
        count += len(blocks[-1].left)
        if most is None and count > bound:
            too_much_state("pairs", bound)
        if most is not None and count > most:
            raise ManyPairsError
    pairs = Pairs(
        np.concatenate([np.zeros(0, np.int64), *(b.left for b in blocks)]),
        np.concatenate([np.zeros(0, np.int64), *(b.right for b in blocks)]),
    )
    order = _order(left.times, right.times, pairs)
    return _result(select, time, left, right, Pairs(pairs.left[order], pairs.right[order]))


def _sides(
    select: Selection, time: str, tables: Sequence[pa.Table]
) -> tuple[tuple[Side, Side], list[tree.Expression]]:
    """Build both streams, and the conditions that remain for pairs."""
    aliases = [stream.alias for stream in select.streams]
    own: list[list[tree.Expression]] = [[], []]
    rest = []
    for condition in select.condition:
        named = aliases_in(condition)
        if len(named) == 1:
            own[aliases.index(named.pop())].append(condition)
        else:
            rest.append(condition)
    columns = [Columns(table) for table in tables]
    codes, used = _key_codes(select, columns)
    rest = [condition for condition in rest if not _is_key(condition, aliases, used)]
    sides = []
    for i in (0, 1):
        length = len(tables[i])
        mask = holds(own[i], lookup_in(columns[i]), length)
        kept = np.ones(length, np.bool_) if mask is None else mask
        times = in_one_unit(read_times(columns[i], time), tables, i, time)
        sides.append(Side(aliases[i], columns[i], times, kept & (codes[i] >= 0), codes[i]))
    return (sides[0], sides[1]), rest


def in_one_unit(
    times: NDArray[np.int64], tables: Sequence[pa.Table], place: int, name: str
) -> NDArray[np.int64]:
    """Convert the times of a stream to nanoseconds if the other stream has nanoseconds."""
    exact = [is_nanoseconds(table.schema.field(name).type) for table in tables]
    if exact[place] or not any(exact):
        return times
    most = TIME_MAX // PER_MICROSECOND
    if len(times) and max(-int(times.min()), int(times.max())) > most:
        message = f"a time of `{name}` is too far from 1970 for the nanoseconds of the other stream"
        helps = ("give the column the same type in both streams",)
        raise DataError([Diagnostic("E517", message, helps=helps)])
    return times * PER_MICROSECOND


def _key_codes(
    select: Selection, columns: Sequence[Columns]
) -> tuple[list[Codes], set[tuple[str, str]]]:
    """Assign numbers to the keys of both streams, and list the columns of the key."""
    used = set()
    arrays: list[Any] = []
    sizes = [len(c.batch) for c in columns]
    known = np.ones(sum(sizes), np.bool_)
    for pair in select.equal:
        vectors = [c.vector(name) for c, name in zip(columns, pair, strict=True)]
        kinds = {vector.kind for vector in vectors}
        if len(kinds) != 1 or not kinds <= set(HASHED):
            continue
        used.add(pair)
        arrays.append(pa.concat_arrays([plain_keys(vector) for vector in vectors]))
        valid = [
            np.ones(size, np.bool_) if vector.valid is None else vector.valid
            for vector, size in zip(vectors, sizes, strict=True)
        ]
        known &= np.concatenate(valid)
    codes, _ = group_codes(arrays, sum(sizes))
    codes = np.where(known, codes, -1)
    return [codes[: sizes[0]], codes[sizes[0] :]], used


def plain_keys(vector: Vector) -> pa.Array[Any]:
    """Return the values of a key as Arrow has them, without NULL."""
    if vector.kind is ValueKind.TEXT:
        return vector.texts.cast(pa.large_string())
    return pa.array(vector.numbers)


def _is_key(condition: tree.Expression, aliases: list[str], used: set[tuple[str, str]]) -> bool:
    match condition:
        case tree.Binary(operator="=", left=tree.Attribute() as a, right=tree.Attribute() as b):
            a, b = (a, b) if a.variable.text == aliases[0] else (b, a)
            return (a.attribute.text, b.attribute.text) in used
    return False


# ---------------------------------------------------------------------------------------
# Candidates


def _candidates(
    select: Selection, left: Side, right: Side, begins: tuple[int, int]
) -> Iterator[Candidates]:
    """Find the pairs that windows and keys allow."""
    window = select.window
    first, second = window.lengths
    if window.extent is Extent.TIME:
        low = np.searchsorted(right.times, left.times - second, side="right")
        high = np.searchsorted(right.times, left.times + first, side="left")
        yield ranges(_from(left, begins[0]), right, low, high)
        if begins[0]:
            old = left._replace(kept=left.kept & (np.arange(len(left.kept)) < begins[0]))
            low = np.searchsorted(left.times, right.times - first, side="right")
            high = np.searchsorted(left.times, right.times + second, side="left")
            yield ranges(_from(right, begins[1]), old, low, high)._replace(swapped=True)
        return
    # If times are equal, events of the first stream come first.
    high = np.searchsorted(right.times, left.times, side="left")
    yield ranges(_from(left, begins[0]), right, np.maximum(high - second, 0), high)
    high = np.searchsorted(left.times, right.times, side="right")
    probe = _from(right, begins[1])
    yield ranges(probe, left, np.maximum(high - first, 0), high)._replace(swapped=True)


def _from(side: Side, begin: int) -> Side:
    """Keep only the rows of a stream from ``begin`` on."""
    return side._replace(kept=side.kept & (np.arange(len(side.kept)) >= begin))


def ranges(probe: Side, other: Side, low: Rows, high: Rows) -> Candidates:
    """Pair the probes with the other stream's rows in [low, high) that have the same key."""
    rows = np.flatnonzero(other.kept)
    if not other.codes.any() and not probe.codes.any():
        # Without keys, the rows before a row are counted.
        before = np.append(0, np.cumsum(other.kept))
        probes = np.flatnonzero(probe.kept)
        return Candidates(probes, rows, before[low[probes]], before[high[probes]])
    rows = rows[stable_order(other.codes[rows])]
    span = len(other.times) + 1
    places = other.codes[rows] * span + rows
    probes = np.flatnonzero(probe.kept)
    base = probe.codes[probes] * span
    begins = np.searchsorted(places, base + low[probes], side="left")
    ends = np.searchsorted(places, base + high[probes], side="left")
    return Candidates(probes, rows, begins, ends)


def _lookup(left: Side, right: Side) -> Callable[[tree.Attribute], tuple[int, Vector]]:
    """Build a function that looks up the stream and the column of an attribute."""

    def look_up(attribute: tree.Attribute) -> tuple[int, Vector]:
        second = attribute.variable.text != left.alias
        side = right if second else left
        return int(second), side.columns.vector(attribute.attribute.text)

    return look_up


def _order(left: Rows, right: Rows, pairs: Pairs) -> Rows:
    """Sort pairs by their later events, then by the earlier ones."""
    first = pairs.left + _places(right, left, pairs.left, "left")
    second = pairs.right + _places(left, right, pairs.right, "right")
    return np.lexsort((np.minimum(first, second), np.maximum(first, second)))


def _places(
    times: Rows, others: Rows, rows: Rows, side: Literal["left", "right"]
) -> NDArray[np.int64]:
    """Find the places of some of the other times; each is looked for once, or in each row."""
    if len(rows) < len(others):
        return np.searchsorted(times, others[rows], side=side)
    return np.searchsorted(times, others, side=side)[rows]


def _result(select: Selection, time: str, left: Side, right: Side, pairs: Pairs) -> pa.Table:
    rows = {left.alias: pairs.left, right.alias: pairs.right}
    sides = {left.alias: left, right.alias: right}

    def as_it_came(attribute: tree.Attribute) -> Any:
        alias = attribute.variable.text
        return sides[alias].columns.arrow(attribute.attribute.text).take(rows[alias])

    lookup = Joined((), _lookup(left, right)).vectors_of(pairs)
    found = project(select.columns, as_it_came, lookup, len(pairs.left))
    return found if select.then is None else _timed(found, time, left, right, pairs)


def _timed(found: pa.Table, time: str, left: Side, right: Side, pairs: Pairs) -> pa.Table:
    """Add the time of pairs, which is that of their later event."""
    later = np.maximum(left.times[pairs.left], right.times[pairs.right])
    return with_time(found, time, [left, right], later)


def with_time(found: pa.Table, time: str, sides: Sequence[Side], latest: Rows) -> pa.Table:
    """Add the times of the latest events to rows; all are in the finest unit of the streams."""
    kinds = [type_of_times(side.columns.arrow(time).type) for side in sides]
    kind = next((k for k in kinds if is_nanoseconds(k)), kinds[0])
    times: Any = pa.array(latest)
    placed = times if pa.types.is_integer(kind) else times.cast(kind)
    # COUNT(*) alone reads no column, and a table without columns has no rows.
    return pa.table([*found.columns, placed], names=[*found.column_names, time])
