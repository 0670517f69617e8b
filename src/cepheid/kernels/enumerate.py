"""Build matches backwards from their last events, one path at a time, and stop at any point.

A *frame* is one event of the match that is being built; the frames from the last event of the match
to its first are all that is remembered. A step either puts an earlier event below the last frame,
or writes the match out when its first event may begin one, or goes back to the frame above. Every
event that is put in can be led to a beginning (``kernels/starts.py``), so the time between two
matches is bounded by their lengths and by the events that predicates reject.

Source: RCEP, "Recomputation-based Complex Event Processing", section 2: events are stored for each
variable, and matches are built when the event that ends them is there. Kleene closures need no
list of subsets here: the path itself says which comes next.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.graph import bounds_of, least_order_of_end
from cepheid.kernels.starts import CONTIGUOUS, NEXT, related

DONE, FULL, MISSING = 0, 1, 2
"""Why a kernel stopped: no match is left, no room is left, a block of masks is needed."""
ROW, STATE, EDGE, PLACE, STOP, LOW, HIGH, RANKED = range(8)
"""The columns of a frame: what it binds, the edge, and the earlier rows still to be tried."""
FRAME = 8
TRIGGER, DEPTH, COUNT, BINDINGS, WANTED = range(5)
"""What the cursor holds."""


@njit(cache=True)
def find_ends(G, D, bound):
    """Fill, for every segment and state, the order from which on a match may end there."""
    for segment in range(bound.shape[0]):
        for state in range(bound.shape[1]):
            bound[segment, state] = least_order_of_end(G, D, state, segment)


@njit(cache=True)
def gather_members(D, reach, until, semantics, ptr, member, key):
    """Gather the rows of every segment and state, sorted by the order by which they are looked up.

    This is the row's own order or, under skip-till-next-match, that of the events that extend it.
    """
    states = reach.shape[1]
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        for state in range(states):
            place = ptr[segment * states + state]
            first = place
            for row in range(begin, end):
                if reach[row, state] < 0 or (semantics == NEXT and until[row, state] < 0):
                    continue
                member[place] = row
                key[place] = until[row, state] if semantics == NEXT else D.order[row]
                place += 1
            if semantics == NEXT:
                order = np.argsort(key[first:place], kind="mergesort")
                key[first:place] = key[first:place][order]
                member[first:place] = member[first:place][order]
            ptr[segment * states + state + 1] = place


@njit(cache=True)
def _lower_bound(key, first, last, value):
    """Return the first place in a sorted slice that is not below a value."""
    while first < last:
        middle = (first + last) // 2
        if key[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True)
def _open_edge(G, D, L, frame, edge, segment, bound, semantics):
    """Find the earlier rows that an edge can come from, as places from STOP to PLACE."""
    row, source, pair = frame[ROW], G.source[edge], G.edge_pair[edge]
    open_, low, high = bounds_of(G, D, edge, row, segment)
    frame[EDGE], frame[PLACE], frame[STOP], frame[RANKED] = edge, 0, 0, -1
    if not open_:
        return
    frame[LOW], frame[HIGH] = low, min(high, D.order[row])
    low = max(low, D.order[bound])
    first = L.member_ptr[segment * G.variable.shape[0] + source]
    last = L.member_ptr[segment * G.variable.shape[0] + source + 1]
    if semantics == NEXT:
        frame[STOP] = _lower_bound(L.member_key, first, last, D.order[row])
        frame[PLACE] = _lower_bound(L.member_key, first, last, D.order[row] + 1)
        return
    if semantics == CONTIGUOUS:
        low = max(low, D.order[row] - 1)
    elif pair >= 0 and L.equal[pair] >= 0:
        equal = L.equal[pair]
        begin = D.segment_ptr[segment]
        if D.first[equal, row] >= 0:
            frame[STOP], frame[PLACE] = begin + D.first[equal, row], begin + D.last[equal, row]
        frame[RANKED] = equal
        return
    frame[STOP] = _lower_bound(L.member_key, first, last, low)
    frame[PLACE] = max(_lower_bound(L.member_key, first, last, frame[HIGH]), frame[STOP])


@njit(cache=True)
def _next_row(G, D, L, frame, bound):
    """Return the next earlier row of a frame's edge: -1 if there is none, -2 if a mask is needed.

    The row stays in its place until it has been judged.
    """
    edge = frame[EDGE]
    source, pair = G.source[edge], G.edge_pair[edge]
    while frame[PLACE] > frame[STOP]:
        place = frame[PLACE] - 1
        prev = L.at_rank[frame[RANKED], place] if frame[RANKED] >= 0 else L.member[place]
        if L.reach[prev, source] >= bound and frame[LOW] <= D.order[prev] < frame[HIGH]:
            held = related(G, D, L, pair, prev, frame[ROW])
            if held < 0:
                return np.int64(-2)
            if held:
                frame[PLACE] = place
                return np.int64(prev)
        frame[PLACE] = place
    return np.int64(-1)


@njit(cache=True)
def _write(G, frames, cursor, depth, trigger, out_trigger, out_ptr, out_row, out_variable):
    """Write the match that the frames hold, its first event first."""
    at = cursor[BINDINGS]
    for n in range(depth - 1, -1, -1):
        out_row[at] = frames[n, ROW]
        out_variable[at] = G.variable[frames[n, STATE]]
        at += 1
    cursor[BINDINGS] = at
    out_trigger[cursor[COUNT]] = trigger
    cursor[COUNT] += 1
    out_ptr[cursor[COUNT]] = at


@njit(cache=True)
def list_matches(G, D, L, semantics, cursor, frames, out_trigger, out_ptr, out_row, out_variable):
    """Write matches until there are no more, the room is used up, or a mask is needed.

    The cursor and the frames say where to go on; a second call goes on there.

    Parameters
    ----------
    cursor
        The number of the trigger, of frames, of matches and bindings written, and the row whose
        mask is wanted.
    frames
        (events of the longest match, FRAME).
    out_trigger, out_ptr, out_row, out_variable
        Filled: for each match its trigger and where its bindings begin; rows and variables.
    """
    trigger, depth = cursor[TRIGGER], cursor[DEPTH]
    while True:
        if depth == 0:
            if trigger >= L.trigger_row.shape[0]:
                cursor[TRIGGER], cursor[DEPTH] = trigger, 0
                return DONE
            frame = frames[0]
            frame[ROW], frame[STATE] = L.trigger_row[trigger], L.trigger_state[trigger]
            frame[EDGE], frame[PLACE], frame[STOP] = G.edge_ptr[frame[STATE]] - 1, 0, 0
            depth = 1
        frame = frames[depth - 1]
        last = L.trigger_row[trigger]
        bound, segment = L.bound[last], L.segment_of[last]
        if frame[PLACE] > frame[STOP]:
            prev = _next_row(G, D, L, frame, bound)
            if prev == -2:
                cursor[TRIGGER], cursor[DEPTH], cursor[WANTED] = trigger, depth, frame[ROW]
                return MISSING
            if prev >= 0:
                below = frames[depth]
                below[ROW], below[STATE] = prev, G.source[frame[EDGE]]
                below[EDGE], below[PLACE], below[STOP] = G.edge_ptr[below[STATE]] - 1, 0, 0
                depth += 1
                continue
        edge = frame[EDGE] + 1
        if edge >= G.edge_ptr[frame[STATE] + 1]:
            depth -= 1
            trigger += depth == 0
            continue
        if G.source[edge] < 0:
            if bounds_of(G, D, edge, frame[ROW], segment)[0]:
                full = cursor[COUNT] >= out_trigger.shape[0]
                if full or cursor[BINDINGS] + depth > out_row.shape[0]:
                    cursor[TRIGGER], cursor[DEPTH] = trigger, depth
                    return FULL
                _write(
                    G, frames, cursor, depth, trigger, out_trigger, out_ptr, out_row, out_variable
                )
            frame[EDGE] = edge
        elif semantics == CONTIGUOUS and depth > 1 and L.crowded[frame[ROW]]:
            frame[EDGE] = edge
        else:
            _open_edge(G, D, L, frame, edge, segment, bound, semantics)
