"""Join situations by Allen's relations: each match is found once, when it becomes certain.

The situations of one definition in one partition are disjoint, so they have one order by start and
by end, and every relation to a given situation is a range of them:

    before | meets | started before, goes on after its start | same start | inside | met by | after

Relations have the numbers of ``plans/situations.py``: 0 before, 1 meets, 2 to 4 started
earlier, 5 to 7 started together, 8 to 10 started inside, 11 met by, 12 after.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.distinct import distinct
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

PAIRS_SAMPLED_MAX = 256
"""Longer ranges are sampled."""

GROUPS = np.array([0b111 << 2, 0b111 << 5, 0b111 << 8], np.int64)


@kernel(inline="code")
def _sign(a, b):
    return np.int64(a > b) - np.int64(a < b)


@kernel()
def relate(a_ts, a_te, b_ts, b_te):
    """Determine the number of the relation of A to B."""
    if a_te <= b_ts:
        return np.int64(0) if a_te < b_ts else np.int64(1)
    if b_te <= a_ts:
        return np.int64(12) if b_te < a_ts else np.int64(11)
    ends = _sign(a_te, b_te)
    starts = _sign(a_ts, b_ts)
    if starts < 0:
        return 3 + ends
    if starts == 0:
        return 6 + ends
    return 9 + ends


@kernel()
def _first_at_least(times, low, high, wanted):
    while low < high:
        middle = (low + high) // 2
        if times[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _first_above(times, low, high, wanted):
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _boundary(place, ts, te, low, high, b_ts, b_te):
    """Find the start of one of the seven ranges of situations around B; 7 is the end."""
    if place <= 0:
        return low
    if place == 1:
        return _first_at_least(te, low, high, b_ts)
    if place == 2:
        return _first_above(te, low, high, b_ts)
    if place == 3:
        return _first_at_least(ts, low, high, b_ts)
    if place == 4:
        return _first_above(ts, low, high, b_ts)
    if place == 5:
        return _first_at_least(ts, low, high, b_te)
    if place == 6:
        return _first_above(ts, low, high, b_te)
    return high


_RANGE_OF = np.array([0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6], np.int64)
_MASKS = np.array([1, 1 << 1, 7 << 2, 7 << 5, 7 << 8, 1 << 11, 1 << 12], np.int64)
"""The relations of each of the seven ranges."""
_SURE = np.int64(1 | 1 << 1 | 1 << 8 | 1 << 11 | 1 << 12)
"""The relations of situations that are not the last of their range."""


@kernel()
def outer_ranges(mask):
    """Find the first and the last of the seven ranges that a set of relations touches."""
    first, last = 7, -1
    for number in range(13):
        if mask >> number & 1:
            first = min(first, _RANGE_OF[number])
            last = max(last, _RANGE_OF[number])
    return first, last


@kernel()
def _is_certain(a, b, mask, ts, te, now):
    """Check whether a constraint holds for all possible ends after now."""
    if te[a] > now and te[b] > now:
        group = GROUPS[1 + _sign(ts[a], ts[b])]
        return mask & group == group
    return mask >> relate(ts[a], te[a], ts[b], te[b]) & 1 == 1


@kernel()
def _owner(sel, cons, alone, known_counts, ts, te, known, now):
    """Find the first definition whose situation makes a match certain now, or -1.

    A constraint becomes certain at the later start or the earlier end. A match that was certain
    before now has no owner, so no match is found twice.
    """
    owner = sel.shape[0]
    for c in range(cons.shape[0]):
        left, right = cons[c, 0], cons[c, 1]
        a, b = sel[left], sel[right]
        by_start = te[a] <= ts[b] or te[b] <= ts[a]
        if not by_start:
            group = GROUPS[1 + _sign(ts[a], ts[b])]
            by_start = cons[c, 2] & group == group
        if by_start:
            if ts[a] >= ts[b] and ts[a] == now:
                owner = min(owner, left)
            if ts[b] >= ts[a] and ts[b] == now:
                owner = min(owner, right)
        else:
            if te[a] <= te[b] and te[a] == now:
                owner = min(owner, left)
            if te[b] <= te[a] and te[b] == now:
                owner = min(owner, right)
    for d in range(sel.shape[0]):
        certain = known[sel[d]] if known_counts[d] else ts[sel[d]]
        if (known_counts[d] or alone[d]) and certain == now:
            owner = min(owner, d)
    return owner if owner < sel.shape[0] else -1


@kernel()
def _last_to_end(sel, te, now):
    """Find the first definition whose situation ends now, if all others have ended."""
    for d in range(sel.shape[0]):
        if te[sel[d]] == now:
            return d
    return -1


@kernel()
def _candidates(x, key, sel, ranges, lo, hi, ts, te, bounds, now, within, waits):
    """Find the range of situations of definition x that may join the chosen ones."""
    low, high = bounds[x, key], bounds[x, key + 1]
    if within >= 0:
        low = _first_at_least(ts, low, high, now - within)
    high = _first_above(te if waits else ts, low, high, now)
    for c in range(lo, hi):
        other = sel[ranges[c, 0]]
        begin = _boundary(ranges[c, 2], ts, te, low, high, ts[other], te[other])
        end = _boundary(ranges[c, 3] + 1, ts, te, low, high, ts[other], te[other])
        low, high = begin, max(begin, end)
    return low, high


@kernel()
def _has_partner(mask, ts, te, low, high, b_ts, b_te):
    """Check whether a situation of a range has one of some relations to B."""
    for place in range(7):
        if mask & _MASKS[place] == 0:
            continue
        begin = _boundary(place, ts, te, low, high, b_ts, b_te)
        end = _boundary(place + 1, ts, te, begin, high, b_ts, b_te)
        if begin >= end:
            continue
        # All but the last of those inside end inside too; other ranges have one relation, or one
        # situation.
        if end - begin > 1 and mask & _MASKS[place] & _SURE:
            return True
        if mask >> relate(ts[end - 1], te[end - 1], b_ts, b_te) & 1:
            return True
    return False


@kernel()
def next_partners(partners, ts, te, bounds):
    """Find for each situation the next one (or itself) with a partner for each constraint.

    Only such situations can be in a match. Without this, a join would try every situation with all
    that was joined before.

    Parameters
    ----------
    partners
        For each constraint and each side of it: the definition, the other one, and the relations
        of the other to it.
    """
    following = np.empty(ts.shape[0], np.int64)
    for x in range(bounds.shape[0]):
        for key in range(bounds.shape[1] - 1):
            follower = bounds[x, key + 1]
            for row in range(bounds[x, key + 1] - 1, bounds[x, key] - 1, -1):
                alive = True
                for c in range(partners.shape[0]):
                    if alive and partners[c, 0] == x:
                        y = partners[c, 1]
                        alive = _has_partner(partners[c, 2], ts, te, bounds[y, key],
                                             bounds[y, key + 1], ts[row], te[row])  # fmt: skip
                follower = row if alive else follower
                following[row] = follower
    return following


def _work(trigger, rows, times, keys, steps, ranges, cons, alone, known_counts, ts, *_):
    """Estimate the work: a situation may meet all others of its partition."""
    partitions = max(len(distinct(keys)), 1)
    return max(len(rows), len(rows) * ts.shape[0] / partitions / 64)


@kernel(work=_work)
def join(trigger, rows, times, keys, steps, ranges, cons, alone, known_counts,
         ts, te, known, bounds, following, within, waits, most, looks):  # fmt: skip
    """Find the matches that situations of one definition make certain.

    Parameters
    ----------
    trigger, rows, times
        The definition, its situations, and the times at which each can make a match certain.
    keys
        The partition of every situation of this definition, from its first one on.
    steps
        For each join the definition, and the offsets of its constraints in ``ranges``.
    ranges
        For each constraint of a join: the definition that is already joined, the relations to it,
        and the outermost of the seven ranges.
    cons, alone, known_counts
        All constraints (left, right, relations); which definitions have none; which must be known
        to last long enough.
    bounds
        The start offsets of the situations of each definition and partition.
    following
        From ``next_partners``, or empty: all situations are tried.
    within, waits
        The window, -1 for none; whether every end must be known.
    most, looks
        The search stops after this number of matches, or of tests of a candidate.

    Returns
    -------
    tuple
        For each match the situations, one column for each definition; its time; and the number of
        tests.
    """
    count = bounds.shape[0]
    room = min(max(16, rows.shape[0]), most)
    found = np.empty((room, count), np.int64)
    when = np.empty(room, np.int64)
    n = 0
    sel = np.zeros(count, np.int64)
    here = np.zeros(count, np.int64)
    end = np.zeros(count, np.int64)
    prunes = following.shape[0] > 0
    rounds = 0
    for i in range(rows.shape[0]):
        row, now = rows[i], times[i]
        if (within >= 0 and ts[row] < now - within) or (prunes and following[row] != row):
            continue
        sel[trigger] = row
        key = keys[row - bounds[trigger, 0]]
        level = 0
        here[0], end[0] = _candidates(steps[0, 0], key, sel, ranges, steps[0, 1], steps[0, 2],
                                      ts, te, bounds, now, within, waits)  # fmt: skip
        while level >= 0:
            rounds = let_signals_in(rounds)
            if rounds == looks:
                return found[:n], when[:n], rounds
            if prunes and here[level] < end[level]:
                here[level] = following[here[level]]
            if here[level] >= end[level]:
                level -= 1
                continue
            x, candidate = steps[level, 0], here[level]
            here[level] += 1
            fits = waits or known[candidate] <= now
            for c in range(steps[level, 1], steps[level, 2]):
                other = sel[ranges[c, 0]]
                fits = fits and _is_certain(candidate, other, ranges[c, 1], ts, te, now)
            if not fits:
                continue
            sel[x] = candidate
            if level < count - 2:
                level += 1
                here[level], end[level] = _candidates(
                    steps[level, 0], key, sel, ranges, steps[level, 1], steps[level, 2],
                    ts, te, bounds, now, within, waits)  # fmt: skip
                continue
            owner = (_last_to_end(sel, te, now) if waits
                     else _owner(sel, cons, alone, known_counts, ts, te, known, now))  # fmt: skip
            if owner != trigger:
                continue
            if n == most:
                return found[:n], when[:n], rounds
            if n == room:
                room = min(2 * room, most)
                found, when = _grown(found, room), _grown_times(when, room)
            found[n] = sel
            when[n] = now
            n += 1
    return found[:n], when[:n], rounds


@kernel()
def _grown(found, room):
    larger = np.empty((room, found.shape[1]), np.int64)
    larger[: found.shape[0]] = found
    return larger


@kernel()
def _grown_times(when, room):
    larger = np.empty(room, np.int64)
    larger[: when.shape[0]] = when
    return larger


@kernel()
def sample_pairs(mask, a_bounds, b_bounds, ts, te, keys_max, rows_max):
    """Count, in a sample, the pairs of situations that a constraint keeps, and all pairs.

    The sample has partitions spread over all of them, and the latest situations of each.
    """
    kept, pairs = 0, 0
    count = a_bounds.shape[0] - 1
    stride = max(1, count // keys_max)
    first, last = outer_ranges(mask)
    for k in range(0, count, stride):
        low, high = b_bounds[k], b_bounds[k + 1]
        for a in range(max(a_bounds[k], a_bounds[k + 1] - rows_max), a_bounds[k + 1]):
            pairs += high - low
            # Seen from B, the relations of A are turned round: search among the B around A.
            begin = _boundary(6 - last, ts, te, low, high, ts[a], te[a])
            end = _boundary(7 - first, ts, te, low, high, ts[a], te[a])
            pace = max(1, (end - begin) // PAIRS_SAMPLED_MAX)
            for b in range(begin, end, pace):
                kept += pace * (mask >> relate(ts[a], te[a], ts[b], te[b]) & 1)
    return kept, pairs
