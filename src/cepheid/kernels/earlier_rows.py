"""List matches from kept lists: for a row and an edge, the earlier rows that it can follow.

As in ``enumerate.py``, matches are built backwards from their last events, one path at a time. In a
narrow window far more matches pass through a row than there are rows before it, so what an edge
allows is found once, when a match first asks, and kept: ``kept`` holds the lists, the latest row
first, and ``kept_ptr`` where each begins and ends. They are dropped when the room is used up.

What is told about events is written here too, because the events of a match lie side by side: the
last event of the next match and all that follow the first are copied from ``path``, where the stack
of the search is kept from right to left, words by fours and letters by eights.
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
    next_row,
    open_edge,
)
from cepheid.kernels.graph import bounds_of
from cepheid.kernels.pushed import bury, enter, fits, open_limits
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.starts import ANY
from cepheid.kernels.tiers import kernel

USED = 4
"""The field of the cursor that tells how much of the kept lists is used."""
FOUND, FRAME = 8, 9
"""The column of a frame that tells whether it led to a match, and the number of columns."""
SLACK = 8
"""What is copied at once may pass the end of a match by less than this."""
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_5, _6, _7, _8 = np.uint64(5), np.uint64(6), np.uint64(7), np.uint64(8)
"""Places without a sign, which numba takes without asking whether they count from the end."""


@kernel(inline="code", borrows=True)
def _copy_words(source, column, begin, count, target, at):
    """Copy words of a column by fours, which machine code moves at once."""
    place, into = np.uint64(begin), np.uint64(at)
    end = into + np.uint64(count)
    while into < end:
        a, b = source[column, place], source[column, place + _1]
        c, d = source[column, place + _2], source[column, place + _3]
        target[column, into], target[column, into + _1] = a, b
        target[column, into + _2], target[column, into + _3] = c, d
        place, into = place + _4, into + _4


@_copy_words.interpreted
def _(source, column, begin, count, target, at):
    target[column, at : at + count] = source[column, begin : begin + count]


@kernel(inline="code", borrows=True)
def _copy_letters(source, begin, count, target, at):
    """Copy bytes by eights."""
    place, into = np.uint64(begin), np.uint64(at)
    end = into + np.uint64(count)
    while into < end:
        a, b = source[place], source[place + _1]
        c, d = source[place + _2], source[place + _3]
        e, f = source[place + _4], source[place + _5]
        g, h = source[place + _6], source[place + _7]
        target[into], target[into + _1], target[into + _2], target[into + _3] = a, b, c, d
        into += _4
        target[into], target[into + _1], target[into + _2], target[into + _3] = e, f, g, h
        place, into = place + _8, into + _4


@_copy_letters.interpreted
def _(source, begin, count, target, at):
    target[at : at + count] = source[begin : begin + count]


@kernel(borrows=True)
def _keep_earlier_rows(G, D, L, edge, row, scratch, kept, used):
    """Append the earlier rows that a row can follow by an edge, the latest first."""
    segment, pair = L.segment_of[row], G.edge_pair[edge]
    open_, low, high = bounds_of(G, D, edge, row, segment)
    if not open_:
        return used
    source, bound = G.source[edge], L.bound[row]
    at = segment * G.variable.shape[0] + source
    n, upto, equal = 0, 0, np.int64(-1)
    if pair >= 0:
        n, upto, equal = G.pair_ptr[pair], G.pair_ptr[pair + 1], L.equal[pair]
    scratch[ROW] = row
    open_edge(scratch, edge, low, high, bound, ANY, D.order, L.member_ptr[at],
              L.member_ptr[at + 1], L.member_key, equal, D.segment_ptr[segment], D.first,
              D.last)  # fmt: skip
    while scratch[PLACE] > scratch[STOP]:
        prev = next_row(scratch, bound, source, -1, n, upto, D.order, L.reach, L.close, L.member,
                        L.at_rank, G.predicate, G.outside, D.rank, D.first, D.last)  # fmt: skip
        if prev >= 0:
            kept[used] = prev
            used += 1
    return used


@kernel(inline="code", borrows=True)
def _open_list(G, D, L, frames, top, edge, kept, kept_ptr, used):
    """Find the kept list of a frame's row, or make it; return how much of the room is used."""
    row = frames[top, ROW]
    if kept_ptr[row, edge, 0] == 0:
        kept_ptr[row, edge, 0] = used + 1
        used = _keep_earlier_rows(G, D, L, edge, row, frames[top + 1], kept, used)
        kept_ptr[row, edge, 1] = used + 1
    frames[top, PLACE], frames[top, STOP] = kept_ptr[row, edge, 0] - 1, kept_ptr[row, edge, 1] - 1
    return used


@kernel(inline="code", borrows=True)
def _push(frames, depth, row, state, edge_ptr):
    """Push a row; its edges are not tried yet."""
    frames[depth, ROW], frames[depth, STATE] = row, state
    frames[depth, EDGE] = edge_ptr[state] - 1
    frames[depth, PLACE] = frames[depth, STOP] = frames[depth, FOUND] = 0


@kernel(inline="code", borrows=True)
def _lay(T, place, row, variable):
    """Put what is told about an event on the path."""
    for column in range(T.words.shape[1]):
        T.path[column, place] = T.words[row, column]
    T.bound[place] = variable
    length = T.length
    for letter in range(length):
        T.spelled[place * length + letter] = T.letters[variable * length + letter]


@kernel(inline="code", borrows=True)
def _write(T, begin, depth, at):
    """Write the events that are on the path."""
    for column in range(T.words.shape[1]):
        _copy_words(T.path, column, begin, depth, T.out, at)
    _copy_letters(T.bound, begin, depth, T.out_variable, at)
    length = T.length
    if length:
        _copy_letters(T.spelled, begin * length, depth * length, T.out_spelled, at * length)


@kernel(inline="code", borrows=True)
def _write_behind(T, row, variable, begin, depth, at):
    """Write an event, and behind it those that are on the path."""
    for column in range(T.words.shape[1]):
        T.out[column, np.uint64(at)] = T.words[row, column]
        _copy_words(T.path, column, begin, depth, T.out, at + 1)
    T.out_variable[np.uint64(at)] = variable
    _copy_letters(T.bound, begin, depth, T.out_variable, at + 1)
    length = T.length
    if length:
        first = variable * length
        _copy_letters(T.letters, first, length, T.out_spelled, at * length)
        _copy_letters(T.spelled, begin * length, depth * length, T.out_spelled, (at + 1) * length)


@kernel(inline="code", borrows=True)
def _end(T, segment, last, count, at):
    """Write where a match ends; return the number of matches."""
    T.out_segment[count], T.out_last[count] = segment, last
    T.out_ptr[count + 1] = at
    return count + 1


@kernel(inline="code", borrows=True)
def _has_room(T, count, at):
    """Check whether one more match fits, whose bindings end at a place."""
    return count < T.out_last.shape[0] and at <= T.out.shape[1] - SLACK


@kernel(inline="code", borrows=True)
def _complete(P, T, limits, kept, place, stop, bound, depth, source, variable, segment, last,
              count, at):  # fmt: skip
    """Write the matches that some rows begin; return what is left of the rows, and the sizes."""
    begin, orders = T.path.shape[1] - SLACK - depth, P.outside.shape[0]
    while place < stop:
        row = np.uint64(kept[np.uint64(place)])
        if row < np.uint64(bound):
            return stop, count, at
        if not orders or fits(limits, depth - 1, P.outside, row, source, P.earlier_ptr, P.earlier,
                              P.rank):  # fmt: skip
            if not _has_room(T, count, at + depth + 1):
                return place, count, at
            _write_behind(T, row, variable, begin, depth, at)
            at += depth + 1
            count = _end(T, segment, last, count, at)
        place += 1
    return place, count, at


def _work(G, D, L, P, T, *_):
    """Estimate the work: a batch of matches, whose number nobody knows before."""
    return float(max(4 * T.out.shape[1], L.bound.shape[0]))


@kernel(work=_work, borrows=True)
def list_by_earlier_rows(
    G, D, L, P, T, need, cursor, frames, limits, dead, dead_limits, kept, kept_ptr
):
    """Write matches until there are no more or the buffer is full.

    The cursor, the frames and the path hold the state of the search; a second call continues there.
    Under skip-till-any-match only, and without predicates that do not separate.

    Parameters
    ----------
    T
        What is told about an event, ``words`` (rows, columns), and about its variable, so many
        ``letters`` each; ``path``, ``bound`` and ``spelled``: words, variables and letters of the
        match that is being built, from right to left. Filled: for each match its segment, its last
        row and the offset of its bindings; for each binding its words, column by column, its
        variable and letters. What is copied has SLACK.
    need
        The most room that the lists of one trigger can take.
    cursor, frames, limits, dead, dead_limits
        As for ``enumerate.list_matches``; at USED of the cursor, how much of ``kept`` is used.
    kept_ptr
        (rows, edges, 2), where a list begins and ends, plus one; 0 where none is kept.
    """
    # Arrays are read from their tuples once: passing tuples costs more than everything else.
    edge_ptr, source_of, variable, reach = G.edge_ptr, G.source, G.variable, L.reach
    begins, bounds, outside, later_ptr, later = L.begins, L.bound, P.outside, P.later_ptr, P.later
    right, orders = T.path.shape[1] - SLACK, outside.shape[0]
    trigger, depth, used, rounds = cursor[TRIGGER], cursor[DEPTH], cursor[USED], 0
    count, at, full, bound = cursor[COUNT], cursor[BINDINGS], False, np.int64(0)
    if depth > 0:
        bound = bounds[frames[0, ROW]]
    while not full:
        rounds = let_signals_in(rounds)
        if depth == 0:
            if trigger >= L.trigger_row.shape[0]:
                break
            if used + need > kept.shape[0]:
                used = 0
                kept_ptr[:] = 0
            row, state, depth = L.trigger_row[trigger], L.trigger_state[trigger], 1
            bound = bounds[row]
            _push(frames, 0, row, state, edge_ptr)
            _lay(T, right - 1, row, variable[state])
            open_limits(limits, outside, row, state, later_ptr, later, P.first, P.last)
        top, place, last = depth - 1, frames[depth - 1, PLACE], frames[0, ROW]
        stop, edge, state = frames[top, STOP], frames[top, EDGE], frames[top, STATE]
        if place < stop:
            row, source = np.int64(kept[place]), source_of[edge]
            frames[top, PLACE] = place + 1
            if row < bound:
                frames[top, PLACE] = stop
            elif begins[source]:
                # Each of these rows completes a match.
                before = count
                frames[top, PLACE], count, at = _complete(
                    P, T, limits, kept, place, stop, bound, depth, source, variable[source],
                    L.segment_of[row], last, count, at)  # fmt: skip
                full = frames[top, PLACE] < stop
                if count > before:
                    frames[top, FOUND] = 1
            elif reach[row, source] >= bound and (not orders or enter(
                    limits, depth, row, source, trigger, dead, dead_limits, outside, P.earlier_ptr,
                    P.earlier, later_ptr, later, P.rank, P.first, P.last)):  # fmt: skip
                _push(frames, depth, row, source, edge_ptr)
                _lay(T, right - depth - 1, row, variable[source])
                depth += 1
            continue
        edge, row = edge + 1, frames[top, ROW]
        if edge >= edge_ptr[state + 1]:
            depth = top
            if depth == 0:
                trigger += 1
            elif frames[top, FOUND]:
                frames[top - 1, FOUND] = 1
            elif orders:
                bury(limits, top - 1, row, state, trigger, dead, dead_limits)
            continue
        if source_of[edge] >= 0:
            used = _open_list(G, D, L, frames, top, edge, kept, kept_ptr, used)
        elif bounds_of(G, D, edge, row, L.segment_of[row])[0]:
            full = not _has_room(T, count, at + depth)
            if full:
                break
            _write(T, right - depth, depth, at)
            at += depth
            count, frames[top, FOUND] = _end(T, L.segment_of[row], last, count, at), 1
        frames[top, EDGE] = edge
    cursor[TRIGGER], cursor[DEPTH], cursor[USED] = trigger, depth, used
    cursor[COUNT], cursor[BINDINGS] = count, at
    return FULL if full else DONE
