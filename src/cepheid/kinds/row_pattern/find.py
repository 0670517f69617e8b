"""A plan and arranged rows in, matches out: the way to find them depends on the conditions.

If all of them speak of the row alone, every condition is known before the search (``_find_local``).
Else rows from which no match can be completed are left out first (``ahead.py``). If conditions see
other rows of the match and compute with numbers, a kernel searches (``_find_seeing``); otherwise
Python does (``_find_slowly``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.pool import empty
from cepheid.errors import DataError, Diagnostic, UnsupportedError
from cepheid.kernels import row_pattern as kernel
from cepheid.kernels import row_pattern_search as search_kernel
from cepheid.kernels import row_pattern_tables as table_kernel
from cepheid.kinds.row_pattern.ahead import without_dead_ends
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows
from cepheid.kinds.row_pattern.automaton import Automaton
from cepheid.kinds.row_pattern.conditions import Condition
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.programs import NoProgramError, Programs, build_programs
from cepheid.kinds.row_pattern.reach import sees_outside, sight_of
from cepheid.kinds.row_pattern.search import Search, too_long, too_many
from cepheid.kinds.row_pattern.tables import Tables, tables_of

MEMORY_BITS_MAX = 1 << 34
"""Bits for the rows and states of the longest partition; two gigabytes."""

ROOM_ROWS = 1 << 22
"""Rows of matches that are kept at a time, if matches overlap."""

TABLES_ROWS_MIN = 1 << 12
"""Building tables takes longer than a search of fewer rows."""

_MODES = {
    "past_last_row": kernel.PAST_LAST_ROW,
    "to_next_row": kernel.TO_NEXT_ROW,
    "to_first": kernel.TO_FIRST,
    "to_last": kernel.TO_LAST,
}
STEPS_MAX = 50_000_000
"""Rows that the kernel may try in one partition: some twenty to sixty seconds."""

STATES_MAX = 4_000_000
"""Failures that the kernel may remember at a time; the table of them takes 200 MB."""

STEPS_BEFORE_MEMORY = 32
"""The kernel remembers what failed once a search has taken so many steps."""

CLOSED: Rows = np.zeros((0, 4), np.int64)
"""No partition to which rows may be added."""


class NotSearchedError(Exception):
    """A search elsewhere is not possible; whoever asked for it turns to the CPU."""


class Quest(NamedTuple):
    """The pattern of a search, and the rows that it runs over.

    ``bounds`` are those of the partitions to be searched. ``limits`` has the first row that is too
    late for a match from each row; it is empty without WITHIN. ``opened`` has a row for each
    partition if more rows may come, with the columns of ``kernels/row_pattern.py``.
    """

    plan: MatchPlan
    rows: ArrangedRows
    bounds: Rows
    automaton: Automaton
    conditions: Sequence[Condition]
    limits: Rows
    opened: Rows = CLOSED
    elsewhere: Callable[[Quest, NDArray[np.bool_], Tables], Iterator[MatchSet]] | None = None
    """Searches by tables on a device."""

    @property
    def longest(self) -> int:
        """Return the number of rows of the longest partition."""
        return int(np.diff(self.bounds).max(initial=0))

    @property
    def row_count(self) -> int:
        """Return the number of rows of all partitions."""
        return int(self.bounds[-1] - self.bounds[0])

    def shares(self, count: int) -> list[Quest]:
        """Cut the partitions into shares of about as many rows, in their order."""
        ends = self.bounds[0] + self.row_count * np.arange(1, count) // count
        cuts = np.searchsorted(self.bounds, ends)
        places = np.unique(np.concatenate([[0], cuts, [len(self.bounds) - 1]])).tolist()
        return [self._replace(bounds=self.bounds[a : b + 1]) for a, b in pairwise(places)]


def find_all(quest: Quest) -> Iterator[MatchSet]:
    """Yield all matches, in parts.

    Raises
    ------
    DataError
        E610, E611, E612 or E616.
    UnsupportedError
        E607.
    """
    rests = [condition.rest for condition in quest.conditions]
    if not any(rest is not None for rest in rests):
        return _find_local(quest)
    if quest.elsewhere is not None:
        raise NotSearchedError
    quest, plan = without_dead_ends(quest), quest.plan
    try:
        programs = build_programs(quest.rows, plan.variables, rests, plan.text)
    except NoProgramError:
        return _find_slowly(quest)
    return _find_seeing(quest, programs)


def _targets(plan: MatchPlan) -> NDArray[np.bool_]:
    return np.array([name in plan.skip_targets for name in plan.variables] or [False], np.bool_)


def _masks(conditions: Sequence[Condition], length: int) -> NDArray[np.bool_]:
    """Return the masks of conditions on the row alone."""
    masks = [c.mask for c in conditions if c.mask is not None]
    if len(masks) == 1:
        return masks[0].reshape(1, -1)
    return np.stack(masks) if masks else np.zeros((1, length), np.bool_)


def _numbers_of(conditions: Sequence[Condition]) -> list[int]:
    """Return the number of the mask that each variable has, or -1."""
    has = [c.mask is not None for c in conditions]
    return [int(n) if some else -1 for n, some in zip(np.cumsum(has) - 1, has, strict=True)]


def _letters(quest: Quest) -> NDArray[np.uint8]:
    """Return which conditions hold for each row of the partitions, one bit each."""
    begin, end = int(quest.bounds[0]), int(quest.bounds[-1])
    letters = empty(quest.rows.row_count, np.uint8)
    own = letters[begin:end]
    own[:] = 0
    masks = [c.mask for c in quest.conditions if c.mask is not None]
    for bit, mask in enumerate(masks):
        own |= mask[begin:end].view(np.uint8) << np.uint8(bit)
    return letters


def _find_local(quest: Quest) -> Iterator[MatchSet]:
    """Return the matches where every condition is known before the search."""
    plan, rows, automaton = quest.plan, quest.rows, quest.automaton
    of_variable = _numbers_of(quest.conditions)
    condition_count = max(of_variable, default=-1) + 1
    condition_of = np.array([-1, *(of_variable[v] for v in automaton.variable_of[1:])], np.int32)
    if quest.elsewhere is not None:
        if not _fits_tables(quest, condition_count) or plan.skip.mode != "past_last_row":
            raise NotSearchedError
        masks = _masks(quest.conditions, rows.row_count)
        return quest.elsewhere(quest, masks, tables_of(automaton, condition_of))
    if quest.row_count >= TABLES_ROWS_MIN and _fits_tables(quest, condition_count):
        return _find_by_tables(quest, condition_of)
    bits = (quest.longest + 1) * automaton.state_count
    if bits > MEMORY_BITS_MAX:
        message = f"the pattern has too many positions for partitions of {quest.longest:,} rows"
        helps = ("repeat less often, permute fewer variables, or add PARTITION BY",)
        found = Diagnostic("E607", message, plan.pattern.span, helps=helps)
        raise UnsupportedError([found], plan.text)
    memo = np.zeros((bits >> 6) + 2, np.uint64)
    masks = _masks(quest.conditions, rows.row_count)

    def find(resume: Rows, *room: NDArray[Any]) -> int:
        path, cursor, *output = room
        result: int = kernel.find_matches(
            quest.bounds, resume, masks, condition_of, automaton.variable_of, automaton.first,
            automaton.moves, quest.limits, quest.opened, _MODES[plan.skip.mode], _targets(plan),
            plan.rows == "all unmatched", plan.seeks, memo, path, cursor, *output,
        )  # fmt: skip
        return result

    return _run(quest, find)


def _fits_tables(quest: Quest, conditions: int) -> bool:
    """Check whether sets of states and of conditions are bytes, and every row may be taken."""
    automaton, most = quest.automaton, table_kernel.STATES_MAX
    small = automaton.state_count - 1 <= most and conditions <= most
    free = not len(quest.limits) and not len(quest.opened) and not quest.plan.seeks
    return small and free and automaton.first.shape[0] == 1


def _find_by_tables(quest: Quest, condition_of: NDArray[np.int32]) -> Iterator[MatchSet]:
    """Return the matches where no step of the search has to be taken back."""
    plan, automaton = quest.plan, quest.automaton
    tables = tables_of(automaton, condition_of)
    letters, viable = _letters(quest), np.zeros(quest.longest + 1, np.uint8)
    is_target = np.append(False, _targets(plan)[automaton.variable_of[1:]])

    def find(resume: Rows, *room: NDArray[Any]) -> int:
        result: int = table_kernel.find_by_tables(
            quest.bounds, resume, letters, *tables, is_target, _MODES[plan.skip.mode],
            plan.rows == "all unmatched", viable, *room[2:],
        )  # fmt: skip
        return result

    return _run(quest, find)


def _find_seeing(quest: Quest, programs: Programs) -> Iterator[MatchSet]:
    """Return the matches where conditions see earlier rows and compute with numbers."""
    plan, rows, automaton = quest.plan, quest.rows, quest.automaton
    masks = _masks(quest.conditions, rows.row_count)
    mask_of = np.array(_numbers_of(quest.conditions), np.int32)
    confined, sight = sees_outside(plan), sight_of(plan)
    shared = programs.shared and not len(quest.limits) and not confined
    steps_max = plan.bounds.steps_max(STEPS_MAX, quest.longest)
    states_max = plan.bounds.states_max(STATES_MAX, quest.longest)
    # Python tries whether few steps will do; if not, machine code goes on.
    patience = [search_kernel.PATIENCE] if quest.row_count < search_kernel.PATIENCE else []

    def find(resume: Rows, *room: NDArray[Any]) -> int:
        result: int = search_kernel.find_seeing_matches(
            quest.bounds, resume, masks, mask_of, automaton.variable_of, automaton.first,
            automaton.moves, quest.limits, quest.opened, _MODES[plan.skip.mode], _targets(plan),
            plan.rows == "all unmatched", sight if plan.seeks else -1, confined,
            *programs[:-1], shared, STEPS_BEFORE_MEMORY,
            steps_max, states_max, patience.pop() if patience else search_kernel.ENDLESS,
            quest.longest, *room,
        )  # fmt: skip
        return result

    return _run(quest, find)


def _run(quest: Quest, find: Callable[..., int]) -> Iterator[MatchSet]:
    """Yield the matches of a kernel, a full buffer at a time."""
    plan, row_count, longest = quest.plan, quest.row_count, quest.longest
    overlapping = plan.skip.mode != "past_last_row"
    path, cursor = np.zeros(longest + 2, np.int32), np.zeros(longest + 2, np.int64)
    starts, lengths, numbers = (empty(row_count + 1) for _ in range(3))
    room = max(row_count, longest + ROOM_ROWS if overlapping else 0) + 1
    states = empty(room, np.int16 if quest.automaton.state_count < 2**15 else np.int32)
    resume = np.array([0, -1, 0, -1, 0, 0], np.int64)
    result = kernel.FULL
    while result == kernel.FULL:
        with np.errstate(over="ignore"):  # Hashes wrap; only loops that run as Python would warn.
            result = find(resume, path, cursor, starts, lengths, numbers, states)
        if result == search_kernel.TOO_LONG:
            raise too_long(plan, STEPS_MAX)
        if result == search_kernel.TOO_MANY:
            raise too_many(plan, STATES_MAX)
        if result not in (kernel.FULL, kernel.DONE):
            _raise_skip(plan, int(result))
        count, used = int(resume[4]), int(resume[5])
        yield MatchSet(
            quest.automaton, plan.variables, starts[:count], lengths[:count], numbers[:count],
            states[:used],
        )  # fmt: skip


def _raise_skip(plan: MatchPlan, code: int) -> None:
    name = plan.skip.variable
    if code == kernel.SKIP_TO_FIRST_ROW:
        message = f"AFTER MATCH SKIP TO `{name}` leads to the first row of the match"
        helps = ("the search would find the same match for ever: skip to another variable",)
        found = Diagnostic("E610", message, plan.skip.span, helps=helps)
    else:
        message = f"AFTER MATCH SKIP: a match has no row of `{name}`"
        helps = ("skip to a variable that every match has",)
        found = Diagnostic("E611", message, plan.skip.span, helps=helps)
    raise DataError([found], plan.text)


def _find_slowly(quest: Quest) -> Iterator[MatchSet]:
    """Yield the matches where conditions see earlier rows and compute with more than numbers."""
    plan, rows, automaton = quest.plan, quest.rows, quest.automaton
    search = Search(plan, rows, automaton, quest.conditions, quest.limits)
    targets, mode = _targets(plan), _MODES[plan.skip.mode]
    starts: list[int] = []
    lengths: list[int] = []
    numbers: list[int] = []
    states: list[int] = []

    def flush() -> MatchSet:
        first, length, number = (np.array(p, np.int64) for p in (starts, lengths, numbers))
        entries = np.array(states, np.int32)
        found = MatchSet(automaton, plan.variables, first, length, number, entries)
        for part in (starts, lengths, numbers, states):
            part.clear()
        return found

    for number, (begin, stop) in enumerate(pairwise(quest.bounds.tolist())):
        opened = quest.opened[number] if len(quest.opened) else None
        for found in search.run(begin, stop, mode, targets, opened):
            if isinstance(found, int):
                _raise_skip(plan, -found)
                continue
            if found.states is None:
                if plan.rows != "all unmatched":
                    continue
                length = -1
            else:
                length = len(found.states)
                states += found.states
            starts.append(found.start)
            lengths.append(length)
            numbers.append(found.number)
            if len(states) > ROOM_ROWS:
                yield flush()
    yield flush()
