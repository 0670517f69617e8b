"""List matches by one walk over the events, where no two events are compared with each other.

Under skip-till-next-match, the first event that fits extends everything that waits in a state;
under skip-till-any-match, every later event does. So no earlier event is looked up: what waits is a
list, and whoever extends it points to it.

A *record* stands for the partial matches that end with one event in one state. The events of one
time read lists first, then take them, and are added to lists at last, the latest record first; a
record in a list never changes. So a list that was read stays as it was, though others go on in
front of it. Matches are read backwards from the records that end them, in the order of
``kernels/enumerate.py``.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

ROW, STATE, LATEST, LINK, LISTS = range(5)
"""The fields of a record: its event and state, the latest event that begins one of its matches, the
next record of its list, and one list for each edge of its state that does not begin a match."""
HEAD, BEST = range(2)
"""For a key and state: the list that waits and the latest begin in it."""
WAITING = 2
NODE, EDGE, PLACE, NEXT = range(4)
"""A frame: its record, the edge that comes next, the place of its list, and the next record."""
FRAME = 4
DONE, FULL = 0, 1
"""Why a kernel stopped: no match is left, or the buffer is full."""
TRIGGER, DEPTH, COUNT, BINDINGS = range(4)
"""The fields of the cursor."""
POLL = 16
"""Events between two looks at signals."""


@kernel(borrows=True)
def walk_events(
    key, ts, kind, together, state_ptr, state_of, take_ptr, take_of, edge_ptr, source, waits,
    list_count, final, stamp, low, wanted, waiting, record, trigger,
):  # fmt: skip
    """Write the records of all events, and those that end matches; return the number of the latter.

    Parameters
    ----------
    key, ts, kind
        For each event in time order: its key, its time, and the number of its set of variables.
    together
        Whether events of one time cannot follow each other.
    state_ptr, state_of, take_ptr, take_of
        For each set of variables: the states of these, and those whose lists such an event takes
        away from later events.
    edge_ptr, source, waits, list_count, final
        For each state: its edges with their source (-1: a match begins), whether any variable may
        follow, the number of its lists, and whether a match may end there.
    stamp, low, wanted
        A match begins with an event whose stamp is not below ``low`` of its last event; ``wanted``
        marks events that end listed matches.
    waiting, record, trigger
        Filled; ``waiting`` has -1 in all fields, and one row for each key and state.
    """
    states, used, count, i, rounds, poll = final.shape[0], 0, 0, 0, 0, 0
    while i < key.shape[0]:
        if i >= poll:
            rounds = let_signals_in(rounds)
            poll = i + POLL
        j = i + 1
        while together and j < key.shape[0] and ts[j] == ts[i]:
            j += 1
        first = used
        for row in range(i, j):
            base = key[row] * states
            for n in range(state_ptr[kind[row]], state_ptr[kind[row] + 1]):
                q = state_of[n]
                latest, at = -1, used + LISTS
                for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                    if source[edge] < 0:
                        latest = row
                        continue
                    place = base + source[edge]
                    record[at] = waiting[place, HEAD]
                    latest = max(latest, waiting[place, BEST])
                    at += 1
                if latest < 0:
                    continue
                ends = final[q] and wanted[row] and stamp[latest] >= low[row]
                if ends or waits[q]:
                    record[used + ROW], record[used + STATE] = row, q
                    record[used + LATEST], record[used + LINK] = latest, -1
                    if ends:
                        trigger[count] = used
                        count += 1
                    used = at
        for row in range(i, j):
            base = key[row] * states
            for n in range(take_ptr[kind[row]], take_ptr[kind[row] + 1]):
                waiting[base + take_of[n], HEAD] = -1
                waiting[base + take_of[n], BEST] = -1
        at = first
        while at < used:
            state = record[at + STATE]
            if waits[state]:
                place = key[record[at + ROW]] * states + state
                record[at + LINK] = waiting[place, HEAD]
                waiting[place, HEAD] = at
                waiting[place, BEST] = max(waiting[place, BEST], record[at + LATEST])
            at += LISTS + list_count[state]
        i = j
    return count


@kernel(inline="code")
def _in_reach(record, at, stamp, bound):
    """Find the next record of a list that leads to a begin not below a bound, -1 if none does."""
    while at >= 0:
        # Records of a list are in descending order of their events.
        if stamp[record[at + ROW]] < bound:
            return -1
        if stamp[record[at + LATEST]] >= bound:
            return at
        at = record[at + LINK]
    return at


@kernel(inline="code")
def _push(frames, depth, record, at, edge_ptr):
    """Push a record, none of whose edges has been tried."""
    frames[depth, NODE], frames[depth, EDGE] = at, edge_ptr[record[at + STATE]]
    frames[depth, PLACE], frames[depth, NEXT] = at + LISTS, -1


@kernel(inline="code")
def _write(record, frames, depth, first, variable, at, out_row, out_variable):
    """Write the match on the stack of frames, after the event of a record that begins it."""
    if first >= 0:
        out_row[at], out_variable[at] = record[first + ROW], variable[record[first + STATE]]
        at += 1
    for n in range(depth - 1, -1, -1):
        out_row[at] = record[frames[n, NODE] + ROW]
        out_variable[at] = variable[record[frames[n, NODE] + STATE]]
        at += 1
    return at


def _work(variable, edge_ptr, source, list_count, record, trigger, *_):
    """Estimate the work: most records lead to few matches."""
    return float(trigger.shape[0]) * 4


@kernel(work=_work)
def read_matches(
    variable, edge_ptr, source, list_count, record, trigger, stamp, low, cursor, frames, out_last,
    out_ptr, out_row, out_variable,
):  # fmt: skip
    """Write matches until there are no more, or the buffer is full; a second call continues.

    Parameters
    ----------
    cursor
        The numbers of the trigger, of frames, and of matches and bindings written.
    frames
        (events of the longest match, FRAME).
    out_last, out_ptr, out_row, out_variable
        Filled: for each match its last event and the offset of its bindings; rows and variables.
    """
    place, depth, count, at = cursor[TRIGGER], cursor[DEPTH], cursor[COUNT], cursor[BINDINGS]
    rounds, bound, last = 0, np.int64(0), np.int64(0)
    if depth:
        last = np.int64(record[frames[0, NODE] + ROW])
        bound = low[last]
    while depth or place < trigger.shape[0]:
        if not depth:
            rounds = let_signals_in(rounds)
            _push(frames, 0, record, trigger[place], edge_ptr)
            last, depth = np.int64(record[trigger[place] + ROW]), 1
            bound = low[last]
        top = depth - 1
        first = _in_reach(record, frames[top, NEXT], stamp, bound)
        # A state without lists only begins matches, so its records need no frame.
        begins = first >= 0 and not list_count[record[first + STATE]]
        edge = frames[top, EDGE]
        if first >= 0 and not begins:
            frames[top, NEXT] = record[first + LINK]
            _push(frames, depth, record, first, edge_ptr)
            depth += 1
            continue
        if not begins:
            if edge == edge_ptr[record[frames[top, NODE] + STATE] + 1]:
                depth -= 1
                place += depth == 0
                continue
            if source[edge] >= 0:
                frames[top, NEXT] = record[frames[top, PLACE]]
                frames[top, PLACE] += 1
                frames[top, EDGE] += 1
                continue
        if count == out_last.shape[0] or at + depth + begins > out_row.shape[0]:
            frames[top, NEXT] = first
            break
        at = _write(record, frames, depth, first, variable, at, out_row, out_variable)
        out_last[count] = last
        count += 1
        out_ptr[count] = at
        if begins:
            frames[top, NEXT] = record[first + LINK]
        else:
            frames[top, EDGE] += 1
    cursor[TRIGGER], cursor[DEPTH], cursor[COUNT], cursor[BINDINGS] = place, depth, count, at
    return FULL if depth or place < trigger.shape[0] else DONE
