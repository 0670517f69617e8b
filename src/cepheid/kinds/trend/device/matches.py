"""List matches of bounded length on the GPU: level by level, backwards from their last events.

Partial matches of one length are rows of a level. The device counts and then writes the earlier
events that each of them may take, so a level is one join of partial matches with events. Matches
come in the order of ``listing/enumerate.py``: the latest earlier event first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator.launches import device_of
from cepheid.accelerator.selecting import PairCounts, Probes, count_pairs_there
from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.owned import EVERYTHING
from cepheid.kinds.trend.device.levels import Level, order_matches
from cepheid.kinds.trend.listing.enumerate import Places
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import Comparison, Relation
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.windows.list_step import empty_matches, finish_matches
from cepheid.kinds.trend.windows.match_windows import Stretch
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.memory_limits import collect
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import START, Template

TRIGGERS = 1 << 20
"""Last events whose matches are built at once, if these are not too many."""

PARTIAL_MAX = 1 << 25
"""Partial matches of a level."""


class _TooMany(Exception):  # noqa: N818  # it never leaves this module
    """A single last event has too many partial matches."""


class _NotThere(Exception):  # noqa: N818  # it never leaves this module
    """A predicate does not separate, so the CPU lists the matches."""


class DeviceMatches:
    """A query that lists matches of bounded length."""

    in_order = True
    whole = True

    def __init__(self, plan: TrendPlan) -> None:
        self._job = lower(plan)

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """List all matches; None if a predicate, or too many partial matches, are for the CPU.

        Raises
        ------
        DataError
            E553 for too many partial matches, if the device is ``forced``.
        """
        assert isinstance(events, pa.Table), "all events are there"
        job = self._job
        try:
            _, tables = finish_matches(job, PartitionState(job), events, EVERYTHING, listing_on_gpu)
            return pa.concat_tables([empty_matches(job, events.schema), *collect(tables)])
        except _NotThere:
            return None
        except _TooMany as error:
            if not forced:
                return None
            total = error.args[0]
            message = f"one event ends {total:,} partial matches, more than {PARTIAL_MAX:,}"
            helps = ("use a shorter window, or stricter conditions", 'use device="auto"')
            raise DataError([Diagnostic("E553", message, helps=helps)]) from None

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


def listing_on_gpu(job: Job, stretch: Stretch, wanted: Places) -> DeviceLister:
    """Create the lister of a stretch."""
    return DeviceLister(job, stretch, wanted)


class _Source(NamedTuple):
    """The earlier events of an edge: those that fit its first variable, the latest first."""

    edge: int
    state: int
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    """For each of them, from the last to the first, the latest begin of a match that it extends."""
    form: tuple[Any, ...]
    left: tuple[Any, ...]
    right: tuple[Any, ...]


class DeviceLister:
    """Lists the matches of the segments of a stretch; see ``Lister`` for what it returns."""

    def __init__(self, job: Job, stretch: Stretch, wanted: Places) -> None:
        self.segments, self.rest = stretch.segments, job.plan.globals
        self._question, (self._template,) = stretch.question, job.templates
        self._bound, self._wanted = stretch.bound(self.segments), wanted(self.segments)
        self._before = first_of_time(self._question, self.segments)
        self._numbers = {name: n for n, name in enumerate(self._question.variables)}
        self._reach = self._reaches()
        self._sources = [self._sources_of(q) for q in range(len(self._template.states))]

    def batches(self, most: int | None = None) -> Iterator[Found]:
        """List the matches, in the order of their last events."""
        row, state = self._triggers()
        first, step = 0, TRIGGERS if most is None else min(max(most, 1), TRIGGERS)
        while first < len(row):
            part = slice(first, first + step)
            levels = self._levels(row[part], state[part], alone=step == 1)
            if levels is None:
                step = max(step // 8, 1)
                continue
            first += step
            found = self._found(levels)
            if len(found):
                yield found

    def _fits(self, state: int) -> NDArray[np.bool_]:
        number = self._numbers[self._template.states[state].variable]
        return np.asarray(self.segments.bits >> number & 1, np.bool_)

    def _reaches(self) -> list[NDArray[np.int64]]:
        """Find for every state and row the latest begin of a match so far, -1 for none.

        Conditions between neighbours are left out, so some rows lead nowhere.
        """
        reach = [np.full(len(self.segments.rows), -1, np.int64) for _ in self._template.states]
        for state in in_order(self._template):
            fits, own = self._fits(state), reach[state]
            for edge in self._template.edges:
                if edge.target != state:
                    continue
                if edge.source == START:
                    own[fits] = np.flatnonzero(fits)
                    continue
                latest = np.append(-1, np.maximum.accumulate(reach[edge.source]))
                np.maximum(own, np.where(fits, latest[self._before], -1), out=own)
        return reach

    def _triggers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the rows and states in which matches can end, in the order of events."""
        finals = {final.state for final in self._template.finals}
        ending = np.zeros((len(self._bound), len(self._template.states)), np.bool_)
        for state in finals:
            ending[:, state] = self._wanted & (self._reach[state] >= self._bound)
        row, ended = np.nonzero(ending)
        order = np.argsort(self.segments.rows[row], kind="stable")
        return row[order], ended[order]

    def _sources_of(self, state: int) -> list[_Source | int]:
        """Prepare the edges into a state in their order; START is the begin of a match."""
        found: list[_Source | int] = []
        for edge in self._template.edges:
            if edge.target != state:
                continue
            if edge.source == START:
                found.append(START)
                continue
            rows = np.flatnonzero(self._reach[edge.source] >= 0)[::-1]
            relation = self._relation(edge.source, state)
            form, left, right = columns_of(relation, self.segments.rows, rows)
            starts = self._reach[edge.source][rows[::-1]]
            found.append(_Source(len(found), edge.source, rows, starts, form, left, right))
        return found

    def _relation(self, source: int, target: int) -> Relation | None:
        states = self._template.states
        names = (states[source].variable, states[target].variable)
        found = [r for r in self._question.relations if (r.prev, r.next) == names]
        if found and found[0].rest:
            raise _NotThere
        return found[0] if found else None

    def _levels(
        self, row: NDArray[np.int64], state: NDArray[np.int64], *, alone: bool
    ) -> list[Level] | None:
        """Build all partial matches of some last events; None if there are too many."""
        nobody = np.zeros(len(row), np.int64)
        level = Level(row, state, nobody, nobody, self._bound[row], self._begins(state))
        levels = [level]
        while len(level.row):
            grown = self._grown(level, alone=alone)
            if grown is None:
                return None
            level = grown
            levels.append(level)
        return levels

    def _begins(self, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the place of START among the edges of a state, -1 if none begins there."""
        places = [s.index(START) if START in s else -1 for s in self._sources]
        return np.array(places, np.int64)[state]

    def _grown(self, level: Level, *, alone: bool) -> Level | None:
        """Extend the partial matches of a level by one earlier event."""
        counted: list[tuple[NDArray[np.int64], _Source, PairCounts]] = []
        total = 0
        for state in range(len(self._template.states)):
            mine = np.flatnonzero(level.state == state)
            for source in self._sources[state] if len(mine) else ():
                if isinstance(source, int):
                    continue
                pairs = self._count(level, mine, source)
                total += pairs.total
                counted.append((mine, source, pairs))
        if total > PARTIAL_MAX:
            if alone:
                raise _TooMany(total)
            return None
        parts = [np.zeros((4, 0), np.int64)]
        for mine, source, pairs in counted:
            probe, place = pairs.write()
            same = np.ones(len(probe), np.int64)
            rows = source.rows[place]
            parts.append(np.stack([mine[probe], source.edge * same, rows, source.state * same]))
        parent, edge, row, state_of = np.concatenate(parts, axis=1)
        if len(counted) > 1:
            order = np.lexsort((edge, parent))
            parent, edge, row, state_of = (a[order] for a in (parent, edge, row, state_of))
        return Level(row, state_of, parent, edge, level.bound[parent], self._begins(state_of))

    def _count(self, level: Level, mine: NDArray[np.int64], source: _Source) -> PairCounts:
        """Count the earlier events that partial matches of one state may take by an edge."""
        rows, last = level.row[mine], len(source.rows)
        # Later rows come first, and the begins that rows reach do not fall with time.
        ascending = source.rows[::-1]
        low = last - np.searchsorted(ascending, self._before[rows])
        high = last - np.searchsorted(source.starts, level.bound[mine])
        probes = Probes(rows, low, np.maximum(high, low))
        return count_pairs_there(source.form, source.left, source.right, probes)

    def _found(self, levels: list[Level]) -> Found:
        """Put the matches of all levels into their order, with their events from the first on."""
        depth, node = order_matches(levels)
        length = depth + 1
        ptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        rows = np.zeros(int(ptr[-1]), np.int64)
        states = np.zeros(len(rows), np.int64)
        place, deepest = ptr[:-1].copy(), int(depth.max(initial=-1))
        last = np.zeros(len(node), np.int64)
        for number in range(deepest, -1, -1):
            here = np.flatnonzero(depth >= number)
            own = node[here]
            rows[place[here]] = levels[number].row[own]
            states[place[here]] = levels[number].state[own]
            place[here] += 1
            if number == 0:
                last[here] = levels[0].row[own]
            node[here] = levels[number].parent[own]
        variable = np.array([self._numbers[s.variable] for s in self._template.states], np.int8)
        segment = np.searchsorted(self.segments.ptr, last, side="right") - 1
        return Found(segment, last, ptr, self.segments.rows[rows], variable[states])


def in_order(template: Template) -> list[int]:
    """Order the states of a template without loops so that edges lead forwards."""
    left, found = set(range(len(template.states))), list[int]()
    while left:
        ready = sorted(
            q for q in left if not any(e.target == q and e.source in left for e in template.edges)
        )
        assert ready, "matches have a bounded length"
        found += ready
        left -= set(ready)
    return found


def first_of_time(question: Question, segments: Segments) -> NDArray[np.int64]:
    """Find for every row the first one of its time and segment: earlier ones may come before it."""
    number = np.arange(len(segments.rows))
    times = question.arrays.ts[segments.rows]
    new = np.ones(len(number), np.bool_)
    if question.together:
        new[1:] = times[1:] != times[:-1]
        new[segments.ptr[:-1]] = True
    return np.maximum.accumulate(np.where(new, number, 0))


def columns_of(
    relation: Relation | None, order: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Copy the keys of comparisons: of all rows, and of the earlier rows of an edge.

    Also return the form of the condition; see ``kernels/conditions.py``.
    """
    comparisons: tuple[Comparison, ...] = () if relation is None else relation.comparisons
    forms: list[tuple[Any, ...]] = []
    sides: tuple[list[Any], list[Any]] = ([], [])
    masks: tuple[list[Any], list[Any]] = ([], [])
    for comparison in comparisons:
        values = []
        later = (0, comparison.next_keys[order], comparison.next_valid, order)
        earlier = (1, comparison.prev_keys[order[rows]], comparison.prev_valid, order[rows])
        for side, keys, valid, own in (earlier, later):
            mask = -1
            if valid is not None:
                masks[side].append(valid[own])
                mask = len(masks[side]) - 1
            sides[side].append(keys)
            values.append(("whole", "column", side, len(sides[side]) - 1, mask))
        forms.append(("compare", comparison.operator, "whole", *values))
    left, right = (_there(sides[n], masks[n]) for n in (0, 1))
    return ("and", *forms), left, right


def _there(keys: list[Any], masks: list[Any]) -> tuple[Any, ...]:
    """Copy whole numbers and masks to the device, in the form of columns of conditions."""
    none = np.zeros(1)
    return (
        device_of(np.stack(keys) if keys else np.zeros((1, 1), np.int64)),
        device_of(np.zeros((1, 1))),
        device_of(np.stack(masks).astype(np.uint8) if masks else np.zeros((1, 1), np.uint8)),
        device_of(none),
        device_of(none.astype(np.int64)),
    )
