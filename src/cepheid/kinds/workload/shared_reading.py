"""Read a batch into the event arrays of a group of queries."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, look_up_types, read_times, value_keys
from cepheid.kinds.trend.program.reading import fill_weights
from cepheid.kinds.workload.member_shapes import ExtremeShape, PartShape
from cepheid.kinds.workload.shared_tables import Kinds
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan


class SharedEvents(NamedTuple):
    """The events of a batch that belong to a partition, in time order."""

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    kinds: NDArray[Any]
    weights: NDArray[Any]
    values: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> SharedEvents:
        """Select some of the events."""
        return SharedEvents(
            self.ts[rows],
            self.key[rows],
            self.kinds[rows],
            self.weights[:, rows],
            self.values[:, rows],
        )


class GroupLike(Protocol):
    """The columns and kinds of events that a group reads."""

    @property
    def plan(self) -> TrendPlan:
        """Return the plan of one of the members."""

    @property
    def parts(self) -> tuple[PartShape, ...]:
        """Return the parts of all members."""

    @property
    def extremes(self) -> tuple[ExtremeShape, ...]:
        """Return the extremes of all members."""


def read_shared(group: GroupLike, kinds: Kinds, keys: KeyTable, columns: Columns) -> SharedEvents:
    """Read the arrays of the events that belong to a partition (§4.2)."""
    length = len(columns.batch)
    # Doubles would round large whole numbers.
    exact = group.plan.numbers is tree.Numbers.EXACT
    weights = np.zeros((len(group.parts) - 1, length), np.int64 if exact else np.float64)
    for row, part in enumerate(group.parts[1:]):
        fill_weights(weights[row], columns, part.what, part.attribute or None)
    values = np.zeros((len(group.extremes), length), np.int64)
    times = read_times(columns, group.plan.time)
    kinds_of_events = read_kinds(kinds, columns, group.plan.type)
    numbers = columns.numbers(keys)

    def bound() -> NDArray[np.bool_]:
        some = [bool(kinds.symbols_of(kind)) for kind in range(kinds.count)]
        return np.asarray(np.array(some)[kinds_of_events] & (numbers >= 0))

    for row, extreme in enumerate(group.extremes):
        vector = columns.vector(extreme.attribute)
        values[row] = value_keys(vector, largest=extreme.largest, bound=bound)
    events = SharedEvents(times, numbers, kinds_of_events, weights, values)
    if keys.names and (events.key < 0).any():
        events = events.take(np.flatnonzero(events.key >= 0))
    return events


def read_kinds(kinds: Kinds, columns: Columns, type_column: str | None) -> NDArray[Any]:
    """Compute the kind of every event."""
    length = len(columns.batch)
    # Indexes of types and sums of bits are smaller than the number of kinds.
    numbers = np.zeros(length, kinds.dtype)
    if type_column is None:
        # If no query of the group can match, no event has a kind.
        numbers[:] = kinds.types.get(None, 0)
    elif not kinds.conditions:
        # Only the type matters: one table lookup.
        def kind_of(name: str) -> int:
            return int(kinds.base[kinds.types.get(name, 0)])

        look_up_types(columns.encoded(type_column), kind_of, numbers)
        return numbers
    else:
        look_up_types(columns.encoded(type_column), lambda name: kinds.types.get(name, 0), numbers)
    found: NDArray[Any] = kinds.base.astype(kinds.dtype)[numbers]
    for condition, shift in zip(kinds.conditions, kinds.shift.astype(kinds.dtype), strict=True):
        first, *others = [columns.mask(expression) for expression in condition]
        mask = np.logical_and.reduce(others, initial=True) & first if others else first
        found += shift[numbers] * mask
    return found
