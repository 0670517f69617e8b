"""MATCH_RECOGNIZE on a GPU: the search runs there, conditions and measures on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator.failures import refuse_query
from cepheid.accelerator.kernels.row_patterns import BEGINS, CONTINUES, EMPTY, UNTAKEN
from cepheid.accelerator.row_patterns import Taken, take_rows
from cepheid.kinds.row_pattern.find import NotSearchedError, Quest
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.recognize import parts_of, quest_of
from cepheid.kinds.row_pattern.steps import RowPatternSteps
from cepheid.kinds.row_pattern.tables import Tables
from cepheid.plans.plan import RowPatternPlan

NOT_SEARCHED = (
    "a GPU searches patterns with up to eight places and conditions on rows alone, past last rows"
)


class DeviceRowPattern:
    """A clause whose rows are all there, and whose search needs no step back."""

    in_order = True
    whole = True

    def __init__(self, plan: RowPatternPlan) -> None:
        self._plan = plan

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Find all matches; None if the CPU must search.

        Raises
        ------
        UnsupportedError
            E552 if the CPU must search, and the device is ``forced``.
        """
        assert isinstance(events, pa.Table), "all rows are there"
        steps = RowPatternSteps.of(self._plan, events.schema, at_end=True)
        rows = events.select(steps.schema.names).cast(steps.schema)
        quest = quest_of(steps.clause, rows)._replace(elsewhere=search_on_device)
        try:
            return steps.shown(pa.concat_tables(parts_of(quest)))
        except NotSearchedError:
            if forced:
                raise refuse_query(NOT_SEARCHED, self._plan.text) from None
            return None

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a clause is about one stream."""
        raise AssertionError(tables)


def search_on_device(quest: Quest, masks: NDArray[np.bool_], tables: Tables) -> Iterator[MatchSet]:
    """Find all matches, in one part."""
    taken = take_rows(masks, quest.bounds, *tables)
    yield matches_of(quest, taken)


def matches_of(quest: Quest, taken: Taken) -> MatchSet:
    """Build the matches of rows whose states are known."""
    kinds = taken.kinds
    found = (kinds == BEGINS) | (kinds == EMPTY)
    entries = found
    if quest.plan.rows == "all unmatched":
        entries = found | (kinds == UNTAKEN)
    starts = np.flatnonzero(entries)
    more = np.bincount(np.cumsum(kinds == BEGINS)[kinds == CONTINUES], minlength=1)
    lengths = np.select([kinds[starts] == BEGINS, kinds[starts] == EMPTY], [1, 0], -1)
    own = np.flatnonzero(kinds[starts] == BEGINS)
    # Matches count from 1, because the sum over the rows before the first one is 0.
    longer = np.append(more, np.zeros(len(own) + 1, np.int64))[1 : len(own) + 1]
    lengths[own] += longer
    count = np.cumsum(found)
    first = quest.bounds[:-1] - quest.bounds[0]
    before = np.append(0, count)[first]
    partition = np.searchsorted(first, starts, side="right") - 1
    numbers = np.where(found[starts], count[starts] - before[partition], 0)
    states = taken.states[(kinds == BEGINS) | (kinds == CONTINUES)].astype(np.int16)
    return MatchSet(
        quest.automaton, quest.plan.variables, starts + quest.bounds[0], lengths, numbers, states
    )
