"""Take the ways of the engine that only large inputs take, over inputs of any size.

Each number decides from how many events, keys or pairs on another kernel runs. Small random
streams would never get there.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from cepheid.arrays import columns, key_values
from cepheid.kinds.row_pattern import ahead, find, recognize
from cepheid.kinds.selection import windows as select_windows
from cepheid.kinds.situation import stretches
from cepheid.kinds.sweep import grid, run
from cepheid.kinds.trend.listing import walk
from cepheid.kinds.trend.look_back import overlapping, planes, prefix_sums
from cepheid.kinds.trend.program import apart_state, linear_state, open_keys, row_order
from cepheid.kinds.trend.windows import panes, start_counters, step, summaries
from cepheid.patterns import segments

MANY = 1e12
THRESHOLDS: tuple[tuple[Any, str, float], ...] = (
    (ahead, "ROWS_MIN", 0),
    (apart_state, "EVENTS_MIN", 1),
    (apart_state, "PANE_NS", MANY),
    (columns, "FEW_ROWS", 0),
    (find, "ROOM_ROWS", 2),
    (find, "TABLES_ROWS_MIN", 0),
    (grid, "EVENTS_MIN", 0),
    (key_values, "FEW_ROWS", 0),
    (linear_state, "ROWS_ROOM", 2),
    (open_keys, "FEW_KEYS", 0),
    (open_keys, "SHARE", 0),
    (overlapping, "GROUPS_MAX", 1),
    (panes, "STEP_ROWS", 2),
    (planes, "LEAF_ROWS", 1),
    (planes, "PAIR_NS", MANY),
    (prefix_sums, "PLAIN_ROWS", 0),
    (recognize, "ROWS_OF_A_THREAD", 1),
    (row_order, "ROWS_MIN", 0),
    (run, "BLOCK_EVENTS", 2),
    (run, "GRID_EVENTS", 2),
    (segments, "DIVIDED_ROWS", 1),
    (segments, "EXPANDED_ROWS", 2),
    (select_windows, "FEW_WINDOWS", 0),
    (start_counters, "STACK_NS", MANY),
    (step, "LARGE_ROWS", 0),
    (stretches, "BLOCK_ROWS", 2),
    (summaries, "PANE_EVENTS_MIN", 1),
    (walk, "ROOM_MAX", 0),
)


def as_if_many() -> ExitStack:
    """Return a context in which the engine takes a few events for many."""
    stack = ExitStack()
    for module, name, value in THRESHOLDS:
        stack.enter_context(patch.object(module, name, value))
    return stack
