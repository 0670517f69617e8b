"""Choose matches that do not overlap, without listing the others (§14).

Ends are visited in order. For the rows that can end a match which begins late enough
(``kernels/starts.py``), one pass backwards marks what leads to the end, and one pass forwards from
the first such start takes the earliest event that is marked, again and again: this is the preferred
match, and no other one is built. Both passes read the rows between two chosen matches once, but for
predicates, which are checked for pairs of rows. So a pattern with exponentially many matches costs
no more than one with few.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.enumerate import (
    DONE,
    FULL,
    MISSING,
    PLACE,
    ROW,
    STOP,
    next_row,
    open_edge,
    place_link,
)
from cepheid.kernels.graph import NO_BOUND, bounds_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.starts import ANY, CONTIGUOUS, LINKS, NEXT, related
from cepheid.kernels.tiers import kernel

AT_FIRST, ABSENT = 3, 4
"""Why a kernel stopped: a skip goes to the first event of its match, or to none."""
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = 0, 1, 2, 3

GROUP, AT, PHASE, STAMP, BEST, LENGTH, PLACED, FROM, COUNT, BINDINGS, WANTED, MARKED = range(12)
"""The fields of the cursor: the first trigger of the last event and the one at hand, what is done,
the number of the marking, the lengths of the best and of the current match, the row at hand, the
first row that may begin a match, what was written, and the row whose mask is needed."""
FIELDS = 12
PICK, MARK, FOLLOW = 0, 1, 2


@kernel()
def _first_row(row_of, begin, end, least):
    """Find the first row of a sorted slice whose row of the input is not below a bound."""
    while begin < end:
        middle = (begin + end) // 2
        if row_of[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel()
def _begins(G, D, segment, row, state):
    """Check whether a match may begin with a row in a state."""
    for edge in range(G.edge_ptr[state], G.edge_ptr[state + 1]):
        if G.source[edge] < 0:
            if G.guard_ptr[edge] == G.guard_ptr[edge + 1]:
                return True
            open_, _, _ = bounds_of(G, D, edge, row, segment)
            if open_:
                return True
    return False


@kernel()
def _mark_before(G, D, L, C, semantics, frame, segment, end, row, state, low, stamp):
    """Mark the rows that a marked row can follow; False if a mask is needed."""
    states = G.variable.shape[0]
    for edge in range(G.edge_ptr[state], G.edge_ptr[state + 1]):
        source, pair, kind = G.source[edge], G.edge_pair[edge], L.edge_kind[edge]
        if source < 0 or (semantics == CONTIGUOUS and row != end and L.crowded[row]):
            continue
        least, most = np.int64(0), NO_BOUND
        if G.guard_ptr[edge] < G.guard_ptr[edge + 1]:
            open_, least, most = bounds_of(G, D, edge, row, segment)
            if not open_:
                continue
        at, rule = place_link(segment * states + source, kind, semantics, L.kind_rule)
        frame[ROW] = row
        open_edge(
            frame, edge, least, most, low, rule, D.order, L.member_ptr[at],
            L.member_ptr[at + 1], L.member_key, L.equal[pair] if pair >= 0 else -1,
            D.segment_ptr[segment], D.first, D.last,
        )  # fmt: skip
        if semantics == ANY and pair < 0:
            _mark_range(L, C, frame, source, low, stamp, L.member_ptr[at])
            continue
        n, upto = (G.pair_ptr[pair], G.pair_ptr[pair + 1]) if pair >= 0 else (0, 0)
        while frame[PLACE] > frame[STOP]:
            prev = next_row(
                frame, low, source, kind, n, upto, D.order, L.reach, L.close, L.member, L.at_rank,
                G.predicate, G.outside, D.rank, D.first, D.last,
            )  # fmt: skip
            if prev < 0:
                break
            if C.alive[prev, source] == stamp or prev < low:
                continue
            held = related(G, D, L, pair, prev, row) if pair >= 0 and G.pair_mask[pair] >= 0 else 1
            if held < 0:
                return False
            if held:
                C.alive[prev, source] = stamp
    return True


@kernel()
def _mark_range(L, C, frame, source, low, stamp, first):
    """Mark all rows of a range of positions; those that are marked already are jumped over."""
    place = frame[PLACE] - 1
    while place >= frame[STOP]:
        if C.jumped[place] == stamp:
            # Follow the jumps, and shorten them for the next time.
            target = C.jump[place]
            while target >= first and C.jumped[target] == stamp:
                target = C.jump[target]
            C.jump[place] = target
            place = target
            continue
        prev = L.member[place]
        if prev < low:
            break
        C.jumped[place], C.jump[place] = stamp, place - 1
        if L.reach[prev, source] >= low:
            C.alive[prev, source] = stamp
        place -= 1


@kernel()
def _leads(G, D, L, C, semantics, segment, end, prev, row, edge, stamp):
    """Check whether a match at a row can go on over an edge: 1, 0, or -1 if a mask is needed."""
    source, pair = G.source[edge], G.edge_pair[edge]
    if source < 0 or C.front[source] != stamp or D.order[prev] >= D.order[row]:
        return 0
    if semantics == NEXT and L.until[prev, source] != D.order[row]:
        return 0
    if semantics == LINKS:
        kind = L.edge_kind[edge]
        closed = L.close[prev, source, kind]
        # The event that takes a link closes it, unless its rule is `any`.
        if closed < D.order[row] or (L.kind_rule[kind] != ANY and closed != D.order[row]):
            return 0
    if semantics == CONTIGUOUS:
        if D.order[prev] != D.order[row] - 1 or (row != end and L.crowded[row]):
            return 0
    if G.guard_ptr[edge] < G.guard_ptr[edge + 1]:
        open_, least, most = bounds_of(G, D, edge, row, segment)
        if not open_ or D.order[prev] < least or D.order[prev] >= most:
            return 0
    return related(G, D, L, pair, prev, row)


@kernel()
def _take_states(G, D, L, C, semantics, segment, end, prev, row, stamp):
    """Find the states in which a row goes on the match: all of the variable written first.

    Returns the number of states, -1 if a mask is needed; ``C.following`` lists them.
    """
    count, best = 0, np.int64(-1)
    for state in range(G.variable.shape[0]):
        if C.alive[row, state] != stamp:
            continue
        rank = C.rank[G.variable[state]]
        if count and rank > best:
            continue
        held = 0
        if prev < 0:
            held = 1 if _begins(G, D, segment, row, state) else 0
        else:
            for edge in range(G.edge_ptr[state], G.edge_ptr[state + 1]):
                held = _leads(G, D, L, C, semantics, segment, end, prev, row, edge, stamp)
                if held != 0:
                    break
        if held < 0:
            return -1
        if held:
            if not count or rank < best:
                count, best = 0, rank
            C.following[count] = state
            count += 1
    return count


@kernel()
def _go_on(G, C, row, count, stamp, length):
    """Add a row to the current match; the states that it is in replace those before."""
    C.front[:] = 0
    for n in range(count):
        C.front[C.following[n]] = stamp
    C.path[length] = row
    C.bound[length] = G.variable[C.following[0]]


@kernel()
def _is_preferred(C, best, length):
    """Check whether the current match comes before the best one so far (§14.2)."""
    if best == 0:
        return True
    first, second = C.row_of[C.path[0]], C.row_of[C.best_path[0]]
    n = 0
    while first == second and n + 1 < min(best, length):
        n += 1
        first, second = C.row_of[C.path[n]], C.row_of[C.best_path[n]]
    if first != second:
        return first < second
    for n in range(min(best, length)):
        if C.rank[C.bound[n]] != C.rank[C.best_bound[n]]:
            return C.rank[C.bound[n]] < C.rank[C.best_bound[n]]
    return False


@kernel()
def skip(mode, key, first, last, target, after, same, limit, used):
    """Drop the matches that a chosen match drops (§14.3); all arguments are rows of the input."""
    if mode == PAST_LAST:
        limit[key] = after[last]
    elif mode == TO_NEXT:
        used[first] = True
    elif target < 0:
        return ABSENT
    elif target == first:
        return AT_FIRST
    else:
        limit[key] = max(limit[key], same[target])
    return DONE


@kernel()
def _write(C, cursor, last, out_last, out_ptr, out_row, out_variable):
    """Write the best match, whose last row is known."""
    at = cursor[BINDINGS]
    for n in range(cursor[BEST]):
        out_row[at + n] = C.row_of[C.best_path[n]]
        out_variable[at + n] = C.best_bound[n]
    out_last[cursor[COUNT]] = last
    cursor[BINDINGS] = at + cursor[BEST]
    cursor[COUNT] += 1
    out_ptr[cursor[COUNT]] = cursor[BINDINGS]


@kernel()
def _target_of(C, mode, variable, length):
    """Find the row of the input that TO FIRST or TO LAST goes to, -1 for none."""
    found = np.int64(-1)
    for n in range(length):
        if C.rank[C.best_bound[n]] == variable:
            found = C.row_of[C.best_path[n]]
            if mode == TO_FIRST:
                return found
    return found


@kernel()
def _can_begin(C, mode, low, end):
    """Find the first row from which on a match may begin; past the end if there is none."""
    while mode == TO_NEXT and low <= end and C.used[C.row_of[low]]:
        low += 1
    return low


@kernel()
def _pick(D, L, C, mode, cursor, end, last):
    """Prepare to search the segment of a trigger for its preferred match, if it can have one."""
    at, stamp, triggers = cursor[AT], cursor[STAMP], L.trigger_row.shape[0]
    segment, upto = L.segment_of[end], at
    low = _first_row(C.row_of, D.segment_ptr[segment], end + 1, C.limit[C.key[last]])
    low = _can_begin(C, mode, max(L.bound[end], low), end)
    marked = cursor[MARKED] == at + 1
    some = False
    while upto < triggers and L.trigger_row[upto] == end:
        state = L.trigger_state[upto]
        if L.starts[end, state] >= low:
            if not marked:
                C.alive[end, state] = stamp + 1
            some = True
        upto += 1
    cursor[FROM], cursor[AT] = low, upto
    if some and marked:
        cursor[PHASE], cursor[LENGTH], cursor[PLACED] = FOLLOW, 0, low
    elif some:
        cursor[PHASE], cursor[PLACED], cursor[STAMP] = MARK, end, stamp + 1
        # The marks serve again if this event ends matches of one segment only.
        alone = upto >= triggers or C.row_of[L.trigger_row[upto]] != last
        cursor[MARKED] = at + 1 if alone and at == cursor[GROUP] else 0


@kernel()
def _mark(G, D, L, C, semantics, cursor, frame, end):
    """Mark everything that leads to an end; False if a mask is needed."""
    segment, low, stamp = L.segment_of[end], cursor[FROM], cursor[STAMP]
    while cursor[PLACED] >= low:
        row = cursor[PLACED]
        for state in range(G.variable.shape[0]):
            if C.alive[row, state] == stamp and not _mark_before(
                G, D, L, C, semantics, frame, segment, end, row, state, low, stamp
            ):
                return False
        cursor[PLACED] -= 1
    cursor[PHASE], cursor[LENGTH], cursor[PLACED] = FOLLOW, 0, low
    return True


@kernel()
def _follow(G, D, L, C, semantics, mode, cursor, end):
    """Take the earliest row that leads to the end, and then from there; False if a mask is needed.

    The match replaces the best one of the other segments, if it comes before it.
    """
    segment, stamp = L.segment_of[end], cursor[STAMP]
    while cursor[PLACED] <= end:
        row, length = cursor[PLACED], cursor[LENGTH]
        prev = C.path[length - 1] if length else np.int64(-1)
        count = 0
        if length or mode != TO_NEXT or not C.used[C.row_of[row]]:
            count = _take_states(G, D, L, C, semantics, segment, end, prev, row, stamp)
        if count < 0:
            return False
        if count:
            _go_on(G, C, row, count, stamp, length)
            cursor[LENGTH] += 1
        cursor[PLACED] += 1
    length = cursor[LENGTH]
    if length and _is_preferred(C, cursor[BEST], length):
        C.best_path[:length], C.best_bound[:length] = C.path[:length], C.bound[:length]
        cursor[BEST] = length
    cursor[PHASE] = PICK
    return True


@kernel()
def _settle(C, mode, variable, cursor, last, out_last, out_ptr, out_row, out_variable):
    """Write the preferred match of a last event, if there is one, and drop others."""
    at = cursor[AT]
    if cursor[BEST] == 0:
        cursor[GROUP] = at
        return DONE
    if cursor[COUNT] >= out_last.shape[0] or cursor[BINDINGS] + cursor[BEST] > out_row.shape[0]:
        return FULL
    first = C.row_of[C.best_path[0]]
    target = _target_of(C, mode, variable, cursor[BEST])
    _write(C, cursor, C.best_path[cursor[BEST] - 1], out_last, out_ptr, out_row, out_variable)
    cursor[BEST] = 0
    if mode == PAST_LAST:
        cursor[GROUP] = at
    else:
        cursor[AT] = cursor[GROUP]
    return skip(mode, C.key[last], first, last, target, C.after, C.same, C.limit, C.used)


@kernel()
def choose_matches(
    G, D, L, C, semantics, mode, variable, cursor, frame, out_last, out_ptr, out_row, out_variable
):  # fmt: skip
    """Write chosen matches until there are no more, the buffer is full, or a mask is needed.

    The cursor holds the state of the search; a second call continues there.
    """
    triggers, rounds = L.trigger_row.shape[0], 0
    while cursor[GROUP] < triggers:
        rounds = let_signals_in(rounds)
        at = cursor[AT]
        if cursor[PHASE] == PICK:
            last = C.row_of[L.trigger_row[cursor[GROUP]]]
            if at < triggers and C.row_of[L.trigger_row[at]] == last:
                _pick(D, L, C, mode, cursor, L.trigger_row[at], last)
                continue
            # All segments of the last event were asked for their preferred match.
            status = _settle(
                C, mode, variable, cursor, last, out_last, out_ptr, out_row, out_variable
            )
            if status != DONE:
                return status
            continue
        end = L.trigger_row[at - 1]
        known = True
        if cursor[PHASE] == MARK:
            known = _mark(G, D, L, C, semantics, cursor, frame, end)
        if known:
            known = _follow(G, D, L, C, semantics, mode, cursor, end)
        if not known:
            cursor[WANTED] = cursor[PLACED]
            return MISSING
    return DONE


# ---------------------------------------------------------------------------------------
# Matches that must be listed, because a condition spans the whole match


@kernel()
def keep_preferred(last, ptr, rows, variables, rank, best, kept):
    """Keep of all matches with the same first and last event the preferred one (§14.2).

    ``best`` has a place for every row of the input, at first -1. Matches are in the order of their
    last events.
    """
    for n in range(last.shape[0]):
        first = rows[ptr[n]]
        other = best[first]
        kept[n] = True
        if other >= 0 and last[other] == last[n]:
            a, b, earlier = ptr[n], ptr[other], 0
            while a < ptr[n + 1] and b < ptr[other + 1] and rows[a] == rows[b]:
                if earlier == 0 and rank[variables[a]] != rank[variables[b]]:
                    earlier = -1 if rank[variables[a]] < rank[variables[b]] else 1
                a, b = a + 1, b + 1
            if a < ptr[n + 1] and b < ptr[other + 1]:
                earlier = -1 if rows[a] < rows[b] else 1
            kept[n if earlier >= 0 else other] = False
            if earlier >= 0:
                continue
        best[first] = n


@kernel()
def keep_latest(last, ptr, rows, variables, rank, kept):
    """Keep of all matches with the same last event the latest one (§14.6), in order of these."""
    best = -1
    for n in range(last.shape[0]):
        if best >= 0 and last[best] == last[n]:
            a, b, better = ptr[n], ptr[best], 0
            while a < ptr[n + 1] and b < ptr[best + 1] and rows[a] == rows[b]:
                if better == 0 and rank[variables[a]] != rank[variables[b]]:
                    better = 1 if rank[variables[a]] < rank[variables[b]] else -1
                a, b = a + 1, b + 1
            if a < ptr[n + 1] and b < ptr[best + 1]:
                better = 1 if rows[a] > rows[b] else -1
            if better <= 0:
                continue
            kept[best] = False
        kept[n] = True
        best = n


@kernel()
def choose_listed(mode, key, first, last, target, after, same, limit, used, chosen):
    """Choose among matches that are sorted by last and first event; return why it stopped."""
    for n in range(last.shape[0]):
        if used[first[n]] if mode == TO_NEXT else first[n] < limit[key[n]]:
            continue
        chosen[n] = True
        status = skip(mode, key[n], first[n], last[n], target[n], after, same, limit, used)
        if status != DONE:
            return status
    return DONE
