"""Prepare the plan of a query about situations for the kernels: accumulators and join arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.temporal_join import outer_ranges
from cepheid.plans.plan import SituationPlan
from cepheid.plans.situations import Situations, inverse_of

_Item = TypeVar("_Item")


class Accumulator(NamedTuple):
    """An aggregate that is updated with the events of a situation.

    ``what`` is ``events`` (their number), ``values`` (those that are not NULL), ``sum`` or
    ``least``; the maximum is the minimum in reversed order.
    """

    what: str
    attribute: str | None = None
    largest: bool = False


EVENTS = Accumulator("events")


class KeptValue(NamedTuple):
    """The value of an attribute at the first or at the last event of a situation."""

    last: bool
    attribute: str


class JoinArrays(NamedTuple):
    """The join steps for matches that situations of one definition trigger."""

    steps: NDArray[np.int64]
    ranges: NDArray[np.int64]


def _distinct(lists: list[list[_Item]]) -> list[_Item]:
    return list(dict.fromkeys(item for items in lists for item in items))


def _bits(numbers: Iterable[int]) -> int:
    """Encode a set of small integers as the bits of a signed one."""
    bits = sum(1 << number for number in numbers)
    return bits - (1 << 64) if bits >> 63 else bits


class SituationJob:
    """A plan with everything that can be precomputed before the data comes."""

    def __init__(self, plan: SituationPlan) -> None:
        self.plan = plan
        self.situations: Situations = plan.situations
        self.definitions = plan.situations.definitions
        uses = [use for relative in plan.situations.relative for use in relative.uses]
        previous = [use.attribute for use in uses if use.function == "PREV" and use.attribute]
        self.previous = list(dict.fromkeys(previous))
        self.relative = {relative.number for relative in plan.situations.relative}
        self.within = -1 if plan.situations.within is None else plan.situations.within
        self.waits = self.within >= 0 and not plan.situations.early
        self.relates = bool(plan.situations.constraints)
        count = len(self.definitions)
        self.accumulators: list[list[Accumulator]] = [[] for _ in range(count)]
        self.values: list[list[KeptValue]] = [[] for _ in range(count)]
        for column in plan.situations.columns:
            self._keep(column.situation, column.function, column.attribute)
        for number, definition in enumerate(self.definitions):
            if definition.least_events > 1 or definition.most_events is not None:
                self._keep(number, "COUNT", None)
        constraints = plan.situations.constraints
        self.constraints = np.array(
            [(c.left, c.right, c.mask) for c in constraints], np.int64
        ).reshape(-1, 3)
        both = [(c.left, c.right, inverse_of(c.mask)) for c in constraints]
        both += [(c.right, c.left, c.mask) for c in constraints]
        self.partners = np.array(both, np.int64).reshape(-1, 3)
        related = {n for c in constraints for n in (c.left, c.right)}
        self.alone = np.array([n not in related for n in range(count)], np.bool_)
        self.known_counts = np.array(
            [d.has_least or d.has_most for d in self.definitions], np.bool_
        )
        self._plan_stretches()

    def _plan_stretches(self) -> None:
        """Find the values that stretches must carry; ``stretches.py`` computes them."""
        early = self.relates and not self.waits
        self.measures = _distinct(self.accumulators)
        self.ends = _distinct(self.values)
        wanted = [bool(a or v) for a, v in zip(self.accumulators, self.values, strict=True)]
        self.needed = _bits(number for number, is_wanted in enumerate(wanted) if is_wanted)
        # Running aggregates are needed only if matches are emitted before situations end.
        self.splits = early and (bool(self.measures) or any(end.last for end in self.ends))
        lasting = [n for n, d in enumerate(self.definitions) if d.has_least and not d.has_most]
        self.lasting = np.array(lasting if early else [], np.int64)
        shortest = [self.definitions[n] for n in self.lasting]
        self.least = np.array([(d.at_least, d.least_events) for d in shortest], np.int64)
        self.least = self.least.reshape(-1, 2)

    def _keep(self, situation: int, function: str, attribute: str | None) -> None:
        wanted: list[Accumulator] = []
        match function:
            case "COUNT":
                wanted.append(Accumulator("values" if attribute else "events", attribute))
            case "SUM" | "AVG":
                wanted += [Accumulator("sum", attribute), Accumulator("values", attribute)]
            case "MIN" | "MAX":
                wanted.append(Accumulator("least", attribute, function == "MAX"))
            case "FIRST" | "LAST":
                assert attribute is not None, "the binder asks for an attribute"
                value = KeptValue(function == "LAST", attribute)
                if value not in self.values[situation]:
                    self.values[situation].append(value)
        for accumulator in wanted:
            if accumulator not in self.accumulators[situation]:
                self.accumulators[situation].append(accumulator)

    def join_arrays(self, trigger: int, order: tuple[int, ...]) -> JoinArrays:
        """Build the joins that follow a trigger, in an order."""
        masks: dict[tuple[int, int], int] = {}
        for constraint in self.situations.constraints:
            masks[constraint.left, constraint.right] = constraint.mask
            masks[constraint.right, constraint.left] = inverse_of(constraint.mask)
        steps: list[tuple[int, int, int]] = []
        ranges: list[tuple[int, Any, Any, Any]] = []
        bound = [trigger]
        for number in order:
            begin = len(ranges)
            for other in bound:
                mask = masks.get((number, other))
                if mask is not None:
                    ranges.append((other, mask, *outer_ranges(mask)))
            steps.append((number, begin, len(ranges)))
            bound.append(number)
        return JoinArrays(
            np.array(steps, np.int64).reshape(-1, 3), np.array(ranges, np.int64).reshape(-1, 4)
        )
