"""Finding matches where conditions speak of earlier rows: depth first, with a memory of failures.

Two partial matches that end in the same row and state, and that no later condition can tell apart,
fail alike. So the search remembers where it failed together with what conditions can see: the rows
of the variables they name and the values of aggregates. A limit on the number of steps ends
searches that take too long all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.row_pattern import (
    EDGE,
    FIRST_START,
    LAST_END,
    UNDECIDED_START,
    next_start,
)
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows
from cepheid.kinds.row_pattern.automaton import ACCEPT, Automaton
from cepheid.kinds.row_pattern.conditions import Condition
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import sees_outside, sight_of
from cepheid.kinds.row_pattern.scalars import PartialMatch, Scalar, ScalarCompiler

STEPS_MAX = 2_000_000
"""Rows that the search of one partition may try."""

STATES_MAX = 500_000
"""Failures that it may remember at a time; they take some 200 MB."""

VALUES_A_STEP = 16
"""Values that aggregates may look through in the time of a step."""


class _UndecidedError(Exception):
    """A match that begins at a row depends on rows that have not arrived yet."""


class Found(NamedTuple):
    """One match: its start, number and states; ``states`` is None for a row that none took."""

    start: int
    number: int
    states: list[int] | None


class Search:
    """Searches the partitions of one input.

    Parameters
    ----------
    plan
        The clause.
    rows
        The input.
    automaton
        The pattern.
    conditions
        The conditions of the variables.
    limits
        The first row that is too late for a match from each row; empty without WITHIN.
    """

    def __init__(
        self,
        plan: MatchPlan,
        rows: ArrangedRows,
        automaton: Automaton,
        conditions: Sequence[Condition],
        limits: Rows,
    ) -> None:
        self._plan = plan
        self._limits = limits
        compiler = ScalarCompiler(rows, plan.variables, plan.text)
        rests: list[Scalar | None] = [
            None if c.rest is None else compiler.compile(c.rest) for c in conditions
        ]
        self._rests = rests
        self._masks = [None if c.mask is None else c.mask.tolist() for c in conditions]
        self._signature, self._shared = _signature(compiler)
        trailed = compiler.needs_trail
        self._path = PartialMatch(compiler.tracked, compiler.tallies, trailed=trailed)
        self._confined, self._sight = sees_outside(plan), sight_of(plan)
        self._shared = self._shared and not len(limits) and not self._confined
        self._variable_of = automaton.variable_of.tolist()
        self._moves = [
            [
                automaton.moves[first[s] : first[s + 1]].tolist()
                for s in range(automaton.state_count)
            ]
            for first in automaton.first
        ]
        self._failed: set[Any] = set()
        self._steps = self._states_max = self._edge = self._end = self._barren = 0

    def run(
        self, begin: int, stop: int, mode: int, is_target: Any, opened: Rows | None = None
    ) -> Iterator[Found | int]:
        """Yield the matches of one partition; a negative number says what is wrong with SKIP.

        ``opened`` are the numbers of a partition to which rows may be added.
        """
        path = self._path
        path.begin, path.stop = begin, stop
        self._failed.clear()
        self._steps = self._plan.bounds.steps_max(STEPS_MAX, stop - begin)
        self._states_max = self._plan.bounds.states_max(STATES_MAX, stop - begin)
        numbers = np.array([begin, stop, stop, begin]) if opened is None else opened
        row, number, taken = int(numbers[FIRST_START]), 0, begin - 1
        self._edge, last_end = int(numbers[EDGE]), int(numbers[LAST_END])
        # A row behind an open end is not too late: what asks for it is undecided.
        self._end = stop + (opened is not None)
        self._barren = begin
        variable_of = np.array(self._variable_of, np.int32)
        while row < stop:
            numbers[UNDECIDED_START] = row
            try:
                start, states = self._seek(row, number + 1)
            except _UndecidedError:
                return
            if states is not None and start + len(states) > last_end:
                return
            if states is None:
                if row > taken:
                    yield Found(row, 0, None)
                row += 1
                continue
            number += 1
            yield Found(start, row if self._plan.seeks else number, states)
            taken = max(taken, start + len(states) - 1)
            following = next_start(
                start, row, len(states), mode, is_target, variable_of, np.array(states, np.int32)
            )
            if following < 0:
                yield int(following)
                return
            row = int(following)
        numbers[UNDECIDED_START] = row

    def _seek(self, row: int, number: int) -> tuple[int, list[int] | None]:
        """Find the match that belongs to a row: from it on or, with SEEK, from a later one on."""
        path = self._path
        limit = int(self._limits[row]) if len(self._limits) else self._end
        if self._confined:
            path.begin, path.stop = row, min(limit, self._end)
        start = row
        while True:
            path.begin_at(start, number)
            states = self._search(start, limit)
            if states is not None or not self._plan.seeks:
                return start, states
            if start >= row + self._sight:
                self._barren = max(self._barren, start + 1)
            start += 1
            if not len(self._limits) and start >= row + self._sight:
                # From these rows on there is no match, whatever row asks.
                start = max(start, self._barren)
            if start >= limit:
                return row, None

    def _place(self, row: int) -> list[list[int]]:
        if len(self._moves) == 1:
            return self._moves[0]
        return self._moves[(row == self._path.begin) + 2 * (row == self._path.stop)]

    def _search(self, start: int, limit: int) -> list[int] | None:
        """Return the states of the preferred match from a row, or None if there is none.

        Raises
        ------
        _UndecidedError
            If that depends on a row from the edge on.
        """
        path, failed = self._path, self._failed
        if not self._shared or 2 * len(failed) > self._states_max:
            failed.clear()
        # With a state goes what each variable makes of the next row, as its places are alike:
        # None if it does not take it, else what later conditions see then.
        stack: list[tuple[int, Any, Any, dict[int, Any]]]
        stack = [(0, None, iter(self._place(start)[0]), {})]
        while stack:
            row = start + len(stack) - 1
            seen = stack[-1][3]
            for target in stack[-1][2]:
                if target == ACCEPT:
                    return [entry[0] for entry in stack[1:]]
                variable = self._variable_of[target]
                if row >= limit:
                    continue
                if row >= self._edge:
                    raise _UndecidedError
                if variable in seen and seen[variable] is None:
                    continue
                if (row, target, seen.get(variable)) in failed:
                    continue
                if not self._take(variable, row):
                    seen[variable] = None
                    continue
                seen[variable] = self._signature(path)
                key = (row, target, seen[variable])
                if key in failed:
                    path.pop()
                    continue
                stack.append((target, key, iter(self._place(row + 1)[target]), {}))
                break
            else:
                key = stack.pop()[1]
                if stack:
                    failed.add(key)
                    path.pop()
                    if len(failed) > self._states_max:
                        raise too_many(self._plan, STATES_MAX)
        return None

    def _take(self, variable: int, row: int) -> bool:
        """Take a row for a variable if its condition holds."""
        self._steps -= 1 + self._path.value_count // VALUES_A_STEP
        if self._steps < 0:
            raise too_long(self._plan, STEPS_MAX)
        mask = self._masks[variable]
        if mask is not None and not mask[row]:
            return False
        self._path.push(variable)
        rest = self._rests[variable]
        if rest is not None and rest(self._path) is not True:
            self._path.pop()
            return False
        return True


def too_long(plan: MatchPlan, usual: int) -> DataError:
    """Return the error that ends a search of too many steps."""
    message = f"the search needs more than {plan.bounds.steps or usual:,} steps in one partition"
    helps = (_SIMPLER, "`cepheid.sql(..., search_steps=...)` allows more")
    found = Diagnostic("E612", message, plan.pattern.span, helps=helps)
    return DataError([found], plan.text)


def too_many(plan: MatchPlan, usual: int) -> DataError:
    """Return the error that ends a search which would remember too much."""
    message = (
        f"the search has more than {plan.bounds.states or usual:,} partial matches to remember"
    )
    helps = (_SIMPLER, "`cepheid.sql(..., search_states=...)` allows more")
    found = Diagnostic("E616", message, plan.pattern.span, helps=helps)
    return DataError([found], plan.text)


_SIMPLER = "use conditions on the row and its neighbours (PREV, NEXT), a shorter pattern, or WITHIN"


def _signature(compiler: ScalarCompiler) -> tuple[Callable[[PartialMatch], Any], bool]:
    """Collect what later conditions see of a partial match, and whether it names absolute rows.

    If it does, what failed for one start fails for all.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    first_labels = last_labels = 0
    everything = False
    for navigation, place, labelled in compiler.dependencies:
        reach = navigation.offset + 1
        if place >= 0:
            depths = first if navigation.from_first else last
            depths[place] = max(depths.get(place, 0), reach)
            everything |= labelled
        elif labelled and navigation.from_first:
            first_labels = max(first_labels, reach + max(navigation.shift, 0))
        elif labelled:
            last_labels = max(last_labels, reach + max(-navigation.shift, 0))
    heads, tails = tuple(first.items()), tuple(last.items())
    tallies = compiler.tallies

    def signature(path: PartialMatch) -> Any:
        if everything:
            return path.trail[-1]
        parts: list[Any] = [tuple(path.places[i][:n]) for i, n in heads]
        parts += [tuple(path.places[i][-n:]) for i, n in tails]
        if first_labels:
            parts.append(tuple(path.labels[:first_labels]))
        if last_labels:
            parts.append(tuple(path.labels[-last_labels:]))
        parts += [tally.mark for tally in tallies]
        return tuple(parts)

    compiler.needs_trail |= everything
    shared = not (compiler.needs_start or everything or tallies)
    return signature, shared
