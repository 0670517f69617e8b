"""Enumerate matches backwards from their last events, one path at a time; resumable at any point.

A *frame* is one event of the match that is being built; the stack of frames from the last event of
the match to its first is the only state. A step either pushes an earlier event, or writes the match
if its first event may begin one, or pops a frame. Every pushed event can be completed to a match
(``kernels/starts.py``), so the time between two matches is bounded by their lengths and by the
events that predicates reject.

Source: RCEP, "Recomputation-based Complex Event Processing", section 2: events are stored for each
variable, and matches are built when the event that ends them arrives. Kleene closures need no list
of subsets here: the path itself determines the next one.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import NO_BOUND, bounds_of, least_order_of_end
from cepheid.kernels.pushed import bury, enter, open_limits
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.starts import ANY, CONTIGUOUS, NEXT, in_ranks, related
from cepheid.kernels.tiers import kernel

DONE, FULL, MISSING = 0, 1, 2
"""Why a kernel stopped: no match is left, the buffer is full, or a block of masks is needed."""
ROW, STATE, EDGE, PLACE, STOP, LOW, HIGH, RANKED, FOUND = range(9)
"""The columns of a frame: what it binds, the edge, the earlier rows still to be tried, and whether
it has led to a match."""
FRAME = 9
THEMSELVES = -2
"""As RANKED, but positions are rows."""
TRIGGER, DEPTH, COUNT, BINDINGS, WANTED = range(5)
"""The fields of the cursor."""


@kernel()
def find_ends(G, D, bound):
    """Fill, for every segment and state, the order from which on a match may end there."""
    for segment in range(bound.shape[0]):
        for state in range(bound.shape[1]):
            bound[segment, state] = least_order_of_end(G, D, state, segment)


@kernel()
def gather_members(D, reach, until, semantics, ptr, member, key, before):
    """Collect the rows of every segment and state, sorted by the order of their look-ups.

    This is the row's own order or, under skip-till-next-match, the order of the events that extend
    it. ``before`` is filled unless it has no rows: for every row and state the position behind the
    rows of smaller order, which spares look-ups.
    """
    states, wanted = reach.shape[1], before.shape[0] > 0
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        for state in range(states):
            place = ptr[segment * states + state]
            first = place
            behind, latest = place, np.int64(-1)
            for row in range(begin, end):
                if wanted:
                    if D.order[row] != latest:
                        behind, latest = place, D.order[row]
                    before[row, state] = behind
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


@kernel(inline="code", borrows=True)
def _lower_bound(key, first, last, value):
    """Find the first position in a sorted slice that is not below a value."""
    while first < last:
        middle = (first + last) // 2
        if key[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@kernel(borrows=True)
def place_link(at, kind, semantics, kind_rule):
    """Find the list of earlier rows of a kind of links, and the rule by which it is read."""
    if kind < 0:
        return at, np.int64(semantics)
    # Links that are not `any` are looked up by the order that closes them.
    return at * kind_rule.shape[0] + kind, np.int64(NEXT if kind_rule[kind] != ANY else ANY)


@kernel(inline="code", borrows=True)
def open_edge(
    frame, edge, low, high, bound, rule, order, first, last, key, equal, begin, rank_first,
    rank_last,
):  # fmt: skip
    """Find the earlier rows that an edge can come from, as positions from STOP to PLACE.

    ``rule`` is the semantics of the edge, ``low`` and ``high`` are the orders that guards allow,
    [first, last) the positions of the source state, and ``equal`` the equality predicate, if any.
    """
    row = frame[ROW]
    frame[EDGE], frame[PLACE], frame[STOP], frame[RANKED] = edge, 0, 0, -1
    frame[LOW], frame[HIGH] = low, min(high, order[row])
    low = max(low, order[bound])
    if rule == NEXT:
        frame[STOP] = _lower_bound(key, first, last, order[row])
        frame[PLACE] = _lower_bound(key, first, last, order[row] + 1)
        return
    if rule == CONTIGUOUS:
        # The rows of the time before, which stand right before those of this time.
        after = row
        while after > begin and order[after - 1] == order[row]:
            after -= 1
        before = after
        while before > begin and order[before - 1] == order[row] - 1:
            before -= 1
        frame[STOP], frame[PLACE], frame[RANKED] = before, after, THEMSELVES
        return
    if equal >= 0:
        if rank_first[equal, row] >= 0:
            frame[STOP], frame[PLACE] = (
                begin + rank_first[equal, row],
                begin + rank_last[equal, row],
            )
        frame[RANKED] = equal
        return
    frame[STOP] = _lower_bound(key, first, last, low)
    frame[PLACE] = max(_lower_bound(key, first, last, frame[HIGH]), frame[STOP])


@kernel(borrows=True)
def _open_by_place(frame, source, bound, order, before):
    """Find the earlier rows of an edge without guards and equality predicate, by their places."""
    frame[PLACE] = before[frame[ROW], source]
    frame[STOP] = min(before[bound, source], frame[PLACE])
    frame[LOW], frame[HIGH], frame[RANKED] = 0, order[frame[ROW]], -1


@kernel(inline="code", borrows=True)
def next_row(
    frame, bound, source, kind, n, upto, order, reach, close, member, at_rank, predicate, outside,
    rank, first, last,
):  # fmt: skip
    """Find the next earlier row of a frame's edge, -1 if there is none.

    The ranked predicates are ``predicate[n]`` to ``predicate[upto]``. Links of a kind from 0 on may
    be closed.
    """
    place, row = frame[PLACE], frame[ROW]
    while place > frame[STOP]:
        place -= 1
        prev = np.int64(place)
        if frame[RANKED] != THEMSELVES:
            prev = np.int64(at_rank[frame[RANKED], place] if frame[RANKED] >= 0 else member[place])
        if reach[prev, source] >= bound and frame[LOW] <= order[prev] < frame[HIGH]:
            if kind >= 0 and close[prev, source, kind] < order[row]:
                continue
            if in_ranks(n, upto, predicate, outside, rank, first, last, prev, row):
                frame[PLACE] = place
                return prev
    frame[PLACE] = place
    return np.int64(-1)


@kernel()
def find_first_states(edge_ptr, source, guard_ptr):
    """Mark the states that only begin matches, without a guard: pushing one completes a match."""
    first = np.zeros(edge_ptr.shape[0] - 1, np.bool_)
    for state in range(first.shape[0]):
        edge = edge_ptr[state]
        if edge_ptr[state + 1] == edge + 1:
            first[state] = source[edge] < 0 and guard_ptr[edge] == guard_ptr[edge + 1]
    return first


@kernel(borrows=True)
def _begin(frame, row, state, edge_ptr):
    """Push a row; its edges are not tried yet."""
    frame[ROW], frame[STATE] = row, state
    frame[EDGE], frame[PLACE], frame[STOP], frame[FOUND] = edge_ptr[state] - 1, 0, 0, 0


@kernel(borrows=True)
def _leave(frames, depth, limits, trigger, dead, dead_limits):
    """Pop a frame: report a match to the frame before it, or mark the row as dead."""
    frame = frames[depth]
    if frame[FOUND]:
        frames[depth - 1, FOUND] = 1
    else:
        bury(limits, depth - 1, frame[ROW], frame[STATE], trigger, dead, dead_limits)


@kernel(borrows=True)
def _write(variable, frames, cursor, depth, trigger, out_trigger, out_ptr, out_row, out_variable):
    """Write the match on the stack of frames, its first event first; return whether it fits."""
    at = cursor[BINDINGS]
    if cursor[COUNT] >= out_trigger.shape[0] or at + depth > out_row.shape[0]:
        return False
    for n in range(depth - 1, -1, -1):
        out_row[at] = frames[n, ROW]
        out_variable[at] = variable[frames[n, STATE]]
        at += 1
    out_trigger[cursor[COUNT]] = trigger
    cursor[BINDINGS] = at
    cursor[COUNT] += 1
    out_ptr[cursor[COUNT]] = at
    return True


@kernel(borrows=True)
def list_matches(
    G, D, L, P, semantics, cursor, frames, limits, dead, dead_limits, out_trigger, out_ptr, out_row,
    out_variable,
):  # fmt: skip
    """Write matches until there are no more, the buffer is full, or a mask is needed.

    The cursor and the frames hold the state of the search; a second call continues there.

    Parameters
    ----------
    cursor
        The number of the trigger, of frames, of matches and bindings written, and the row whose
        mask is needed.
    frames
        (events of the longest match, FRAME).
    limits, dead, dead_limits
        The ranges that conditions between distant events allow; see ``kernels/pushed.py``. ``dead``
        has a row for every row of the widest window.
    out_trigger, out_ptr, out_row, out_variable
        Filled: for each match its trigger and the offset of its bindings; rows and variables.
    """
    # Arrays are read from their tuples once: passing tuples costs more than everything else.
    edge_ptr, source_of, pair_of, guard_ptr = G.edge_ptr, G.source, G.edge_pair, G.guard_ptr
    pair_ptr, mask, states = G.pair_ptr, G.pair_mask, G.variable.shape[0]
    order, rank, rank_first, rank_last = D.order, D.rank, D.first, D.last
    reach, bounds, segment_of, member_ptr = L.reach, L.bound, L.segment_of, L.member_ptr
    member, key, at_rank, equals = L.member, L.member_key, L.at_rank, L.equal
    orders, outside, later_ptr, later = P.outside.shape[0], P.outside, P.later_ptr, P.later
    pushed_rank, pushed_first, pushed_last = P.rank, P.first, P.last
    trigger, depth, rounds, edge_kind = cursor[TRIGGER], cursor[DEPTH], 0, L.edge_kind
    before, begins = L.before, L.begins
    while True:
        rounds = let_signals_in(rounds)
        cursor[TRIGGER], cursor[DEPTH] = trigger, depth
        if depth == 0:
            if trigger >= L.trigger_row.shape[0]:
                return DONE
            row, state, depth = L.trigger_row[trigger], L.trigger_state[trigger], 1
            _begin(frames[0], row, state, edge_ptr)
            open_limits(limits, outside, row, state, later_ptr, later, pushed_first, pushed_last)
        frame = frames[depth - 1]
        bound, segment = bounds[frames[0, ROW]], segment_of[frames[0, ROW]]
        if frame[PLACE] > frame[STOP]:
            source, pair = source_of[frame[EDGE]], pair_of[frame[EDGE]]
            n, upto = (pair_ptr[pair], pair_ptr[pair + 1]) if pair >= 0 else (0, 0)
            prev = next_row(frame, bound, source, edge_kind[frame[EDGE]], n, upto, order, reach,
                             L.close, member, at_rank, G.predicate, G.outside, rank, rank_first,
                             rank_last)  # fmt: skip
            if prev >= 0:
                held = 1 if pair < 0 or mask[pair] < 0 else related(G, D, L, pair, prev, frame[ROW])
                if held < 0:
                    frame[PLACE], cursor[WANTED] = frame[PLACE] + 1, frame[ROW]
                    return MISSING
                if held and begins[source] and not orders:
                    # Writing the match at once is faster than pushing and popping a frame.
                    frames[depth, ROW], frames[depth, STATE] = prev, source
                    if not _write(G.variable, frames, cursor, depth + 1, trigger, out_trigger,
                                  out_ptr, out_row, out_variable):  # fmt: skip
                        frame[PLACE] += 1
                        return FULL
                elif held and (not orders or enter(limits, depth, prev, source, trigger, dead,
                        dead_limits, outside, P.earlier_ptr, P.earlier, later_ptr, later,
                        pushed_rank, pushed_first, pushed_last)):  # fmt: skip
                    _begin(frames[depth], prev, source, edge_ptr)
                    depth += 1
                continue
        edge, low, high, open_ = frame[EDGE] + 1, np.int64(0), NO_BOUND, True
        if edge >= edge_ptr[frame[STATE] + 1]:
            if orders and depth > 1:
                _leave(frames, depth - 1, limits, trigger, dead, dead_limits)
            depth, trigger = depth - 1, trigger + (depth == 1)
            continue
        frame[EDGE] = edge
        if guard_ptr[edge] < guard_ptr[edge + 1]:
            open_, low, high = bounds_of(G, D, edge, frame[ROW], segment)
        if not open_:
            continue
        equal = equals[pair_of[edge]] if pair_of[edge] >= 0 else -1
        if source_of[edge] < 0:
            if not _write(G.variable, frames, cursor, depth, trigger, out_trigger, out_ptr, out_row,
                          out_variable):  # fmt: skip
                frame[EDGE] -= 1
                return FULL
            frame[FOUND] = 1
        elif before.shape[0] and equal < 0 and high == NO_BOUND and low == 0:
            _open_by_place(frame, source_of[edge], bound, order, before)
        elif semantics != CONTIGUOUS or depth == 1 or not L.crowded[frame[ROW]]:
            at = segment * states + source_of[edge]
            at, rule = place_link(at, edge_kind[edge], semantics, L.kind_rule)
            open_edge(frame, edge, low, high, bound, rule, order, member_ptr[at],
                      member_ptr[at + 1], key, equal, D.segment_ptr[segment], rank_first,
                      rank_last)  # fmt: skip
