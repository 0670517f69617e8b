"""Events in, step functions of matrices out: where each event passes its condition.

An event passes ``value > parameter`` for all values of the parameter below its own, so one number,
its *rank*, tells for which. Events of one time are one leaf under TIES strict, else each event is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays
from cepheid.arrays.pool import empty
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import evaluate_vector
from cepheid.expressions.vectors import Vector
from cepheid.kernels import linear
from cepheid.kinds.sweep.steps import Axis, Ints, Nodes, pointers, spread
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import NO_VALUE, SEMANTICS_CODES, WIDE, Events
from cepheid.kinds.trend.program.program import Program
from cepheid.kinds.trend.program.wide import fit_doubles, numbers_of
from cepheid.kinds.trend.windows.step import encode_events
from cepheid.language import tree
from cepheid.plans.sweep import Parameter, Threshold

THREAD_ROWS = 1 << 16
"""Events whose ranks one thread finds at once."""


class Scale(NamedTuple):
    """The values of a parameter, sorted, and what passes: the ranks below an event's, or not."""

    values: NDArray[Any]
    order: Ints
    operator: str
    expression: tree.Expression
    mask: int
    """The variables that the condition is about, as bits."""

    @staticmethod
    def of(parameter: Parameter, threshold: Threshold, variables: Sequence[str]) -> Scale:
        """Sort the values of a parameter."""
        values = np.array(parameter.values)
        order = np.argsort(values, kind="stable")
        named = [threshold.variable] if threshold.variable else variables
        mask = sum(1 << n for n, name in enumerate(variables) if name in named)
        return Scale(values[order], order, threshold.operator, threshold.value, mask)

    @property
    def below(self) -> bool:
        """Check whether events pass for the values below their rank, or from it on."""
        return self.operator in (">", ">=")

    def ranks(self, columns: Columns) -> Ints:
        """Compute the rank of every event: the first value at which its condition changes."""

        def lookup(attribute: tree.Attribute) -> Vector:
            return columns.vector(attribute.attribute.text)

        vector = evaluate_vector(self.expression, lookup, len(columns.batch))
        none = 0 if self.below else len(self.values)
        if vector.kind is ValueKind.UNKNOWN:
            return np.full(len(columns.batch), none)
        numbers, values = vector.numbers, self.values
        if numbers.dtype != np.float64 and values.dtype == np.float64:
            # Whole numbers are compared with the whole numbers next to a double.
            near = np.floor(values) if self.operator in (">", "<=") else np.ceil(values)
            values = near.astype(np.int64)
        # NaN is greater than every other number, as searchsorted has it.
        side: Any = "left" if self.operator in (">", "<=") else "right"
        ranks = _places(values.astype(numbers.dtype, copy=False), numbers, side)
        return ranks if vector.valid is None else np.where(vector.valid, ranks, none)


def _places(values: NDArray[Any], numbers: NDArray[Any], side: Any) -> Ints:
    """Find the places of numbers among sorted values; threads take turns with long stretches."""
    starts = range(0, len(numbers), THREAD_ROWS)
    if len(starts) < 2 or pa.cpu_count() < 2:
        return np.searchsorted(values, numbers, side=side)
    found = empty(len(numbers))

    def search(first: int) -> None:
        part = slice(first, first + THREAD_ROWS)
        found[part] = np.searchsorted(values, numbers[part], side=side)

    with ThreadPoolExecutor(min(pa.cpu_count(), len(starts))) as pool:
        deque(pool.map(search, starts), maxlen=0)
    return found


class Leaves(NamedTuple):
    """The events of a stretch, by segment and time, with their ranks on one or two scales."""

    arrays: EventArrays
    ranks: tuple[Ints, ...]

    def take(self, rows: Any) -> Leaves:
        """Choose some of the events."""
        return Leaves(self.arrays.take(rows), tuple(ranks[rows] for ranks in self.ranks))


def nodes_of(
    job: Job, program: Program, scales: Sequence[Scale], leaves: Leaves, group: Ints
) -> Nodes:
    """Build a node for every group of events; ``group`` numbers them from 0, in order."""
    count = int(group[-1]) + 1
    axes = [
        _axis(scale, ranks, group, count) for scale, ranks in zip(scales, leaves.ranks, strict=True)
    ]
    while len(axes) < 2:
        axes.append(Axis(np.arange(count + 1), np.zeros(count, np.int64)))
    first, second = axes
    members = np.bincount(group, minlength=count)
    cells = first.counts * second.counts
    # Every cell of a group has all events of the group, each with the variables that it may take.
    owner = np.repeat(np.arange(count), cells)
    inside = np.arange(len(owner)) - np.repeat(pointers(cells)[:-1], cells)
    width = second.counts[owner]
    begins = (
        first.begin[first.ptr[owner] + inside // width],
        second.begin[second.ptr[owner] + inside % width],
    )
    copies = members[owner]
    ptr = pointers(copies)
    event = spread(pointers(members)[owner], copies, ptr)
    cell = np.repeat(np.arange(len(owner)), copies)
    bits = leaves.arrays.bits[event]
    for scale, ranks, begin in zip(scales, leaves.ranks, begins, strict=False):
        passes = (begin[cell] < ranks[event]) == scale.below
        bits = np.where(passes, bits, bits & ~bits.dtype.type(scale.mask))
    matrices = _matrices(job, program, leaves.arrays, event, cell, bits, len(owner))
    return Nodes(first, second, matrices)


def _axis(scale: Scale, ranks: Ints, group: Ints, count: int) -> Axis:
    """Collect the ranks of every group at which one of its events changes."""
    changes = (ranks > 0) & (ranks < len(scale.values))
    # The first interval begins at 0.
    both = np.concatenate([np.arange(count), group[changes]])
    begin = np.concatenate([np.zeros(count, np.int64), ranks[changes]])
    steps = np.sort(both * (len(scale.values) + 1) + begin)
    if len(steps) > count:
        steps = steps[np.concatenate([[True], steps[1:] != steps[:-1]])]
    owner, begin = np.divmod(steps, len(scale.values) + 1)
    return Axis(pointers(np.bincount(owner, minlength=count)), begin)


def _matrices(
    job: Job,
    program: Program,
    arrays: EventArrays,
    event: Ints,
    cell: Ints,
    bits: NDArray[Any],
    cells: int,
) -> tuple[NDArray[Any], ...]:
    """Compute the matrix of every cell from its events."""
    counts_only = len(job.parts) == 1 and not job.extremes
    taken = EventArrays(
        arrays.ts[event], cell, bits,
        np.take(arrays.weights, event if not counts_only else event[:0], axis=1),
        np.take(arrays.values, event if not counts_only else event[:0], axis=1),
    )  # fmt: skip
    events = encode_events(job, program, taken, sort=False)
    if counts_only and len(events.ts) == cells:
        # A matrix depends on the code of the one event alone.
        seen, place = np.unique(events.codes, return_inverse=True)
        weights = np.zeros((len(events.weights), len(seen)))
        values = np.zeros((len(events.values), len(seen)), np.int64)
        times, keys = np.zeros(len(seen), np.int64), np.arange(len(seen))
        one = Events(times, keys, seen, weights, values, grouped=False)
        return tuple(np.take(a, place, axis=-1) for a in _run(job, program, one, len(seen)))
    return _run(job, program, events, cells)


def _run(job: Job, program: Program, events: Events, cells: int) -> tuple[NDArray[Any], ...]:
    """Run every cell as a partition of its own, with a lane for whatever may come in."""
    starts, size = program.start_size, program.size
    lanes, parts, mins = starts + size, len(job.parts), len(job.extremes)
    doubles = fit_doubles(events.weights, finite=True)
    dtype: np.dtype[Any] = np.dtype(np.float64) if doubles else WIDE
    numbers = np.zeros((cells, size, parts, lanes), dtype)
    numbers[:, np.arange(size), 0, starts + np.arange(size)] = 1
    values = np.full((cells, size, mins, lanes), NO_VALUE, np.int64)
    start = np.full((cells, lanes), -1, np.int32)
    start[:, :starts] = np.arange(starts)
    wcol, xcol = job.columns_of(program)
    weights = numbers_of(events.weights, dtype)
    letters = program.letters_of_codes()[events.codes]
    status, _ = linear.advance(
        program.tables(), numbers, values, start, np.ones((cells, lanes), dtype),
        np.zeros((cells, lanes), np.int64), np.full(cells, NO_VALUE), np.zeros(cells, np.bool_),
        events.ts, events.key, events.codes.astype(np.int32, copy=False), letters, weights,
        events.values, wcol, xcol, linear.rooms(numbers, values), 0, len(events.ts), events.grouped,
        SEMANTICS_CODES[program.semantics], dtype.type(0), np.uint64(0),
    )  # fmt: skip
    assert status == linear.OK, "events of one time have few matches"
    arrays = (numbers, values, start)
    return tuple(np.ascontiguousarray(np.moveaxis(array, 0, -1)) for array in arrays)


def reach_of(program: Program) -> NDArray[np.bool_]:
    """Compute (to, from) whether matches of a configuration can come to be in another one."""
    tables = program.tables()
    reach = np.eye(program.size, dtype=np.bool_)
    for t, target in enumerate(tables.target):
        reach[target, tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]]] = True
    moves = tables.move_to >= 0
    reach[tables.move_to[moves], tables.move_from[moves]] = True
    for _ in range(program.size):
        reach |= (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    return reach
