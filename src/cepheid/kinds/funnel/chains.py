"""The chains of all partitions: arrays that grow with the keys (§12.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, keep_where, read_times, type_bits
from cepheid.events.temporal import FOREVER
from cepheid.kernels.funnel import NONE, take_steps
from cepheid.language import tree
from cepheid.language.variables import without_variable
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.plan import FunnelPlan


class Chains(NamedTuple):
    """For every partition: the group that waits, the chain at each step, and the highest step."""

    waiting: NDArray[np.int64]
    masks: NDArray[np.int64]
    worsts: NDArray[np.int64]
    chains: NDArray[np.int64]
    best: NDArray[np.int64]
    level: NDArray[np.int64]

    @staticmethod
    def empty(steps: int, partitions: int) -> Chains:
        """Create the chains of partitions that have had no event."""
        return Chains(
            np.full(partitions, NONE),
            np.zeros(partitions, np.int64),
            np.zeros(partitions, np.int64),
            np.full((partitions, steps, steps), NONE),
            np.zeros((partitions, steps), np.int64),
            np.zeros(partitions, np.int64),
        )

    def grown(self, partitions: int) -> Chains:
        """Copy the arrays, with room for more partitions; E519 if they take too much memory."""
        steps = self.best.shape[1]
        if partitions * steps * (steps + 1) * 8 > current().state:
            too_much_state("keys of a funnel", partitions)
        more = Chains.empty(steps, partitions - len(self.level))
        return Chains(*map(np.concatenate, zip(self, more, strict=True)))


class StepEvents(NamedTuple):
    """Events as a funnel sees them: time, partition, and the set of steps that each fits."""

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    bits: NDArray[Any]


def read_events(plan: FunnelPlan, keys: KeyTable, events: pa.Table) -> StepEvents:
    """Read events; new keys get numbers, and events without a key -1."""
    columns, funnel = Columns(events), plan.funnel
    types = [step.event_type for step in funnel.steps]
    bits = type_bits(columns, plan.type, types, len(events))
    for number, step in enumerate(funnel.steps):
        for condition in step.conditions:
            keep_where(bits, number, columns.mask(without_variable(condition)))
    return StepEvents(read_times(columns, plan.time), columns.numbers(keys), bits)


def relevant(plan: FunnelPlan, events: StepEvents) -> StepEvents:
    """Select the events that belong to a partition and can change a chain."""
    kept = events.key >= 0
    if not plan.funnel.strict_order:
        kept &= events.bits != 0
    return events if kept.all() else StepEvents(*(array[kept] for array in events))


def take(plan: FunnelPlan, chains: Chains, events: StepEvents, *, within: int) -> None:
    """Let events move the chains, in place."""
    funnel = plan.funnel
    arrival = funnel.ties is tree.Ties.ARRIVAL
    order, single = funnel.strict_order, funnel.deduplicated
    columns = map(np.ascontiguousarray, events)
    take_steps(*columns, within, arrival, order, single, False, *chains)


def end(plan: FunnelPlan, chains: Chains, *, within: int) -> None:
    """Let the events of each partition's last time move the chains, in place."""
    waiting = np.flatnonzero(chains.waiting != NONE)
    later = np.full(len(waiting), FOREVER), waiting, np.zeros(len(waiting), np.uint8)
    order, single = plan.funnel.strict_order, plan.funnel.deduplicated
    take_steps(*later, within, False, order, single, True, *chains)
