"""List matches under skip-till-any-match without conditions between events; see ``enumerate.py``.

Nothing but time decides which earlier rows an edge can come from, so their places are known and no
row is looked up or judged. The cursor and the frames are those of ``enumerate.py``, and so is the
order of the matches.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.enumerate import (
    BINDINGS,
    COUNT,
    DEPTH,
    DONE,
    EDGE,
    FULL,
    PLACE,
    ROW,
    STATE,
    STOP,
    TRIGGER,
    find_first_states,
)
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel()
def _write(frames, top, variable, rows, out_row, out_variable, at):
    """Write what the frames bind, the earliest event first; return the place behind it."""
    for n in range(top, -1, -1):
        out_row[at], out_variable[at] = rows[frames[n, ROW]], variable[frames[n, STATE]]
        at += 1
    return at


@kernel()
def list_plain_matches(
    edge_ptr, source_of, guard_ptr, variable, bounds, reach, before, member, trigger_row,
    trigger_state, rows, cursor, frames, out_trigger, out_ptr, out_row, out_variable,
):  # fmt: skip
    """Write matches until there are no more, or the buffer is full.

    Parameters
    ----------
    rows
        What a row is called in the output.
    before
        For every row and state the position in ``member`` behind the earlier rows of the state.
    cursor, frames, out_trigger, out_ptr, out_row, out_variable
        As for ``list_matches``.
    """
    begins = find_first_states(edge_ptr, source_of, guard_ptr)
    trigger, depth, rounds = cursor[TRIGGER], cursor[DEPTH], 0
    count, at, status = cursor[COUNT], cursor[BINDINGS], DONE
    most, room, bound = out_trigger.shape[0], out_row.shape[0], bounds[0]
    if depth > 0:
        bound = bounds[frames[0, ROW]]
    while True:
        rounds = let_signals_in(rounds)
        if depth == 0:
            if trigger >= trigger_row.shape[0]:
                break
            frames[0, ROW], frames[0, STATE] = trigger_row[trigger], trigger_state[trigger]
            frames[0, EDGE] = edge_ptr[trigger_state[trigger]] - 1
            frames[0, PLACE] = frames[0, STOP] = 0
            depth, bound = 1, bounds[trigger_row[trigger]]
        top = depth - 1
        place, stop = frames[top, PLACE], frames[top, STOP]
        if place > stop:
            source = source_of[frames[top, EDGE]]
            if begins[source]:
                while place > stop:
                    row = member[place - 1]
                    if reach[row, source] >= bound:
                        if count == most or at + depth >= room:
                            status = FULL
                            break
                        out_row[at], out_variable[at] = rows[row], variable[source]
                        at = _write(frames, top, variable, rows, out_row, out_variable, at + 1)
                        out_trigger[count] = trigger
                        count += 1
                        out_ptr[count] = at
                    place -= 1
                frames[top, PLACE] = place
                if status == FULL:
                    break
                continue
            frames[top, PLACE] = place - 1
            row = member[place - 1]
            if reach[row, source] >= bound:
                frames[depth, ROW], frames[depth, STATE] = row, source
                frames[depth, EDGE] = edge_ptr[source] - 1
                frames[depth, PLACE] = frames[depth, STOP] = 0
                depth += 1
            continue
        edge, state = frames[top, EDGE] + 1, frames[top, STATE]
        if edge >= edge_ptr[state + 1]:
            depth = top
            if depth == 0:
                trigger += 1
            continue
        source = source_of[edge]
        if source >= 0:
            frames[top, EDGE] = edge
            frames[top, PLACE] = before[frames[top, ROW], source]
            first = before[bound, source]
            frames[top, STOP] = min(np.int64(first), frames[top, PLACE])
            continue
        if count == most or at + depth > room:
            status = FULL
            break
        at = _write(frames, top, variable, rows, out_row, out_variable, at)
        out_trigger[count] = trigger
        count += 1
        out_ptr[count] = at
        frames[top, EDGE] = edge
    cursor[TRIGGER], cursor[DEPTH] = trigger, depth
    cursor[COUNT], cursor[BINDINGS] = count, at
    return status
