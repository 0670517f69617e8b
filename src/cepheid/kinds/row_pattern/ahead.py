"""Leave out the rows from which no match can be completed, before a search (``find.py``).

A search whose conditions see the match so far tries every start on its own. Without rows that could
end a match, each of them would go on to the end of the partition: n rows would take n² steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cepheid.kernels.row_pattern_ahead import look_ahead
from cepheid.kinds.row_pattern.reach import sees_outside

if TYPE_CHECKING:
    from cepheid.kinds.row_pattern.find import Quest

ROWS_MIN = 1 << 12
"""Fewer rows in the longest partition are searched without looking ahead."""


def without_dead_ends(quest: Quest) -> Quest:
    """Let conditions not hold for rows from which no match can be completed."""
    conditions = quest.conditions
    sees_match = any(condition.rest is not None for condition in conditions)
    if not sees_match or quest.longest < ROWS_MIN or sees_outside(quest.plan):
        return quest
    masks = [c.mask for c in conditions if c.mask is not None]
    numbers = np.cumsum([c.mask is not None for c in conditions]) - 1
    mask_of = np.where([c.mask is not None for c in conditions], numbers, -1).astype(np.int32)
    rows, automaton = quest.rows.row_count, quest.automaton
    stacked = np.stack(masks) if masks else np.zeros((1, rows), np.bool_)
    may = np.zeros((len(conditions), rows), np.bool_)
    look_ahead(
        quest.bounds, stacked, mask_of, automaton.variable_of, automaton.first, automaton.moves,
        quest.opened, may,
    )  # fmt: skip
    narrowed = [
        condition._replace(mask=mine if condition.mask is None else condition.mask & mine)
        for condition, mine in zip(conditions, may, strict=True)
    ]
    return quest._replace(conditions=narrowed)
