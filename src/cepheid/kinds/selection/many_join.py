"""Windowed join of three and more streams: tables in time order in, tuples of events out (§10.12).

Tuples grow by one stream after the other. The windows restrict a tuple to one range of the next
stream, equality conditions become hash keys, and every condition is evaluated as soon as tuples
have all the streams that it speaks of: tuples and the next stream are the two sides of a join.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.expressions.vectors import Vector
from cepheid.kinds.selection.groups import group_codes
from cepheid.kinds.selection.join import (
    HASHED,
    PAIR_BYTES,
    Side,
    in_one_unit,
    plain_keys,
    ranges,
    with_time,
)
from cepheid.kinds.selection.operators import ON_CPU, Joined, Operators
from cepheid.kinds.selection.rows import Rows, holds, lookup_in, project, take_vector
from cepheid.language import tree
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.selection import Selection, aliases_in

Tuples = dict[str, Rows]
"""The row numbers of tuples, by the alias of each stream so far."""


class _Join(NamedTuple):
    """The streams of a join, and its conditions."""

    sides: dict[str, Side]
    lengths: dict[str, int]
    conditions: tuple[tree.Expression, ...]
    by: Operators


def join_many(
    select: Selection,
    time: str,
    tables: Sequence[pa.Table],
    begins: Sequence[int] = (),
    by: Operators = ON_CPU,
) -> pa.Table:
    """Join streams; tuples are in the order in which their last events came.

    With ``begins``, a tuple has a row of some stream from its number on; tuples of earlier rows
    were joined already.

    Raises
    ------
    DataError
        E519 if there are more tuples than fit the limit of a step.
    """
    join = _prepared(select, time, tables, by)
    names = list(join.sides)
    parts = []
    # Each new tuple has a first new event, in the order of streams; it grows from there.
    for place, name in enumerate(names if any(begins) else names[:1]):
        part = join if not any(begins) else _since(join, begins, place)
        tuples: Tuples = {name: np.flatnonzero(part.sides[name].kept)}
        for other in names:
            if other != name:
                tuples = _extended(part, tuples, part.sides[other])
        parts.append(tuples)
    found = {name: np.concatenate([part[name] for part in parts]) for name in names}
    order = _order(join, found)
    return _result(select, time, join, {name: rows[order] for name, rows in found.items()})


def _since(join: _Join, begins: Sequence[int], place: int) -> _Join:
    """Keep new rows of one stream, old rows of those before it, and all rows of those after."""
    sides = {}
    for number, (name, side) in enumerate(join.sides.items()):
        new = np.arange(len(side.kept)) >= begins[number]
        mask = new if number == place else ~new if number < place else True
        sides[name] = side._replace(kept=side.kept & mask)
    return join._replace(sides=sides)


def _prepared(select: Selection, time: str, tables: Sequence[pa.Table], by: Operators) -> _Join:
    """Build the streams; conditions on one of them filter it."""
    sides, rest = {}, list(select.condition)
    for place, (stream, table) in enumerate(zip(select.streams, tables, strict=True)):
        columns = Columns(table)
        own = [condition for condition in rest if aliases_in(condition) <= {stream.alias}]
        rest = [condition for condition in rest if condition not in own]
        mask = holds(own, lookup_in(columns), len(table))
        kept = np.ones(len(table), np.bool_) if mask is None else mask
        times = in_one_unit(read_times(columns, time), tables, place, time)
        codes = np.zeros(len(table), np.int64)
        sides[stream.alias] = Side(stream.alias, columns, times, kept, codes)
    lengths = dict(zip(sides, select.window.lengths_of(len(sides)), strict=True))
    return _Join(sides, lengths, tuple(rest), by)


def _extended(join: _Join, tuples: Tuples, side: Side) -> Tuples:
    """Add a stream to tuples: all its events that windows and conditions allow."""
    known = {*tuples, side.alias}
    asked = [c for c in join.conditions if side.alias in aliases_in(c) and aliases_in(c) <= known]
    probe, other, left = _keyed(join, tuples, side, asked)
    times = {alias: join.sides[alias].times[rows] for alias, rows in tuples.items()}
    # An event waits as long as its own stream says: for the new one, and the new one for it.
    latest = reduce(np.maximum, times.values())
    until = reduce(np.minimum, (t + join.lengths[alias] for alias, t in times.items()))
    low = np.searchsorted(side.times, latest - join.lengths[side.alias], side="right")
    high = np.searchsorted(side.times, until, side="left")
    found: list[Tuples] = []
    count, bound = 0, current().state // PAIR_BYTES
    joined = Joined(left, _lookup_pairs(join, tuples, side))
    for block in join.by.match(joined, ranges(probe, other, low, high)):
        grown = {alias: rows[block.left] for alias, rows in tuples.items()}
        grown[side.alias] = block.right
        found.append(grown)
        count += len(block.right)
        if count > bound:
            too_much_state("tuples", bound)
    nothing = np.zeros(0, np.int64)
    return {
        alias: np.concatenate([nothing, *(part[alias] for part in found)])
        for alias in (*tuples, side.alias)
    }


def _keyed(
    join: _Join, tuples: Tuples, side: Side, conditions: Sequence[tree.Expression]
) -> tuple[Side, Side, list[tree.Expression]]:
    """Assign numbers to the keys of tuples and of a stream; return the conditions that remain."""
    count = len(next(iter(tuples.values())))
    sizes = count, len(side.times)
    known = np.ones(sum(sizes), np.bool_)
    arrays: list[Any] = []
    rest = []
    for condition in conditions:
        pair = _compared(condition, side.alias)
        vectors = [] if pair is None else [
            take_vector(join.sides[pair[0][0]].columns.vector(pair[0][1]), tuples[pair[0][0]]),
            side.columns.vector(pair[1]),
        ]  # fmt: skip
        kinds = {vector.kind for vector in vectors}
        if len(kinds) != 1 or not kinds <= set(HASHED):
            rest.append(condition)
            continue
        arrays.append(pa.concat_arrays([plain_keys(vector) for vector in vectors]))
        known &= np.concatenate([_valid(v, n) for v, n in zip(vectors, sizes, strict=True)])
    codes, _ = group_codes(arrays, len(known))
    codes = np.where(known, codes, -1)
    probe = Side("", side.columns, np.zeros(count, np.int64), codes[:count] >= 0, codes[:count])
    there = codes[count:]
    return probe, side._replace(kept=side.kept & (there >= 0), codes=there), rest


def _valid(vector: Vector, length: int) -> NDArray[np.bool_]:
    return np.ones(length, np.bool_) if vector.valid is None else vector.valid


def _compared(condition: tree.Expression, alias: str) -> tuple[tuple[str, str], str] | None:
    """Return the column of an earlier stream, and that of this one, which it compares by ``=``."""
    match condition:
        case tree.Binary(operator="=", left=tree.Attribute() as a, right=tree.Attribute() as b):
            a, b = (b, a) if a.variable.text == alias else (a, b)
            return (a.variable.text, a.attribute.text), b.attribute.text
    return None


def _lookup_pairs(join: _Join, tuples: Tuples, side: Side) -> Any:
    """Build a function that looks up the column of a tuple, or of the stream that it gets."""

    @cache
    def known(alias: str, name: str) -> Vector:
        return take_vector(join.sides[alias].columns.vector(name), tuples[alias])

    def look_up(attribute: tree.Attribute) -> tuple[int, Vector]:
        alias, name = attribute.variable.text, attribute.attribute.text
        if alias == side.alias:
            return 1, side.columns.vector(name)
        return 0, known(alias, name)

    return look_up


def _lookup(join: _Join, tuples: Tuples) -> Any:
    taken: dict[tuple[str, str], Vector] = {}

    def look_up(attribute: tree.Attribute) -> Vector:
        alias, name = attribute.variable.text, attribute.attribute.text
        if (alias, name) not in taken:
            vector = join.sides[alias].columns.vector(name)
            taken[alias, name] = take_vector(vector, tuples[alias])
        return taken[alias, name]

    return look_up


def _order(join: _Join, tuples: Tuples) -> Rows:
    """Sort tuples by their last events, then by the last but one, and so on."""
    ranks = [_rank(join, place)[rows] for place, rows in enumerate(tuples.values())]
    # The last key of a lexical sort counts most.
    return np.lexsort(np.sort(np.stack(ranks), axis=0))


def _rank(join: _Join, place: int) -> Rows:
    """Rank the events of a stream among those of all; at one time, first streams come first."""
    sides = list(join.sides.values())
    own = sides[place].times
    rank = np.arange(len(own))
    for number, side in enumerate(sides):
        if number != place:
            at = "right" if number < place else "left"
            rank = rank + np.searchsorted(side.times, own, side=at)  # type: ignore[call-overload]  # one of two words
    return rank


def _result(select: Selection, time: str, join: _Join, tuples: Tuples) -> pa.Table:
    def as_it_came(attribute: tree.Attribute) -> Any:
        alias = attribute.variable.text
        return join.sides[alias].columns.arrow(attribute.attribute.text).take(tuples[alias])

    count = len(next(iter(tuples.values())))
    found = project(select.columns, as_it_came, _lookup(join, tuples), count)
    if select.then is None:
        return found
    latest = reduce(np.maximum, (join.sides[a].times[rows] for a, rows in tuples.items()))
    return with_time(found, time, list(join.sides.values()), latest)
