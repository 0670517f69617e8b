"""List matches by one walk where every match has one event of each state, in one order.

This is the walk of ``walk.py`` for such templates: state n follows state n - 1 alone, so a record
has one list and does not name its state. The kinds of events are random, so an event that fits one
variable takes no branch that depends on which one it is.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.walk import BEST, COUNT, DEPTH, DONE, FULL, HEAD, POLL, TRIGGER

ROW, LATEST, LINK, LIST = range(4)
"""The fields of a record: its event, the latest event that begins one of its matches, the next
record of its list, and the list of what it extends."""
RECORD = 4


@kernel(inline="code", borrows=True)
def _put_in(waiting, place, record, at, latest):
    """Let a record wait at the front of a list, if one of its matches has begun."""
    link = waiting[place, HEAD]
    record[at + LINK] = link
    waiting[place, HEAD] = at if latest >= 0 else link
    waiting[place, BEST] = max(waiting[place, BEST], latest)


@kernel(inline="code", borrows=True)
def _take_out(waiting, place):
    """Empty a list."""
    waiting[place, HEAD] = -1
    waiting[place, BEST] = -1


@kernel(borrows=True)
def walk_paths(
    key, ts, kind, together, states, state_ptr, state_of, take_ptr, take_of, only, takes, stamp,
    low, wanted, waiting, record, trigger,
):  # fmt: skip
    """Write the records of all events, and those that end matches; return the number of the latter.

    Parameters
    ----------
    key, ts, kind, together, state_ptr, state_of, take_ptr, take_of, stamp, low, wanted
        As for ``walk.walk_events``.
    only, takes
        For each set of variables: its only state, and the only list that it takes, the last one if
        it takes none. The state is -1 if there is another number of states, or of lists.
    waiting, record, trigger
        Filled. For each key, ``waiting`` has one list before the first state and one behind each,
        and -1 in all fields. The others have room for one record more than there may be.
    """
    last, lists, used, count, i, rounds, poll = states - 1, states + 1, 0, 0, 0, 0, 0
    while i < key.shape[0]:
        if i >= poll:
            rounds = let_signals_in(rounds)
            poll = i + POLL
        q, base = only[kind[i]], key[i] * lists
        alone = not together or i + 1 == key.shape[0] or ts[i + 1] != ts[i]
        if alone and q >= 0:
            # Whatever could be left out is done all the same, with numbers that change nothing.
            latest = waiting[base + q, BEST]
            latest = np.int64(latest if q else i)
            record[used + ROW], record[used + LATEST] = i, latest
            record[used + LIST] = waiting[base + q, HEAD]
            _take_out(waiting, base + takes[kind[i]])
            begun, is_last = latest >= 0, q == last
            ends = is_last & begun & wanted[i] & (stamp[max(latest, 0)] >= low[i])
            trigger[count] = used
            count += ends
            _put_in(waiting, base + q + 1, record, used, latest)
            used += RECORD * (ends | (begun & (not is_last)))
            i += 1
            continue
        j = i + 1
        while together and j < key.shape[0] and ts[j] == ts[i]:
            j += 1
        first = used
        for row in range(i, j):
            base = key[row] * lists
            for n in range(state_ptr[kind[row]], state_ptr[kind[row] + 1]):
                q = state_of[n]
                latest = waiting[base + q, BEST] if q else row
                ends = q == last and latest >= 0 and wanted[row] and stamp[latest] >= low[row]
                if ends or (q < last and latest >= 0):
                    record[used + ROW], record[used + LATEST] = row, latest
                    record[used + LINK], record[used + LIST] = q, waiting[base + q, HEAD]
                    trigger[count] = used
                    count += ends
                    used += RECORD
        for row in range(i, j):
            base = key[row] * lists
            for n in range(take_ptr[kind[row]], take_ptr[kind[row] + 1]):
                _take_out(waiting, base + 1 + take_of[n])
        for at in range(first, used, RECORD):
            place = key[record[at + ROW]] * lists + 1 + record[at + LINK]
            _put_in(waiting, place, record, at, record[at + LATEST])
        i = j
    return count


@kernel(inline="code", borrows=True)
def _read_two(record, stamp, bound, following, out, count):
    """Write the first two events of matches, for all records of a list as second events.

    Return the record and its first event where the buffer is full, -1 if it is not, and the number
    of matches.
    """
    room = out.shape[1]
    while following >= 0 and stamp[record[following + ROW]] >= bound:
        second = record[following + ROW]
        if stamp[record[following + LATEST]] >= bound:
            first = np.int64(record[following + LIST])
            while first >= 0 and stamp[record[first + ROW]] >= bound:
                if count == room:
                    return following, first, count
                out[0, count], out[1, count] = record[first + ROW], second
                count += 1
                first = np.int64(record[first + LINK])
        following = np.int64(record[following + LINK])
    return following, np.int64(-1), count


def _work(record, trigger, *_):
    """Estimate the work: most records lead to few matches."""
    return float(trigger.shape[0]) * 4


@kernel(work=_work, borrows=True)
def read_paths(record, trigger, stamp, low, cursor, at, rows, out):
    """Write matches until there are no more, or the buffer is full; a second call continues.

    Parameters
    ----------
    cursor
        The numbers of the trigger and of the state whose list is read, and of matches written.
    at, rows
        For each state the record that comes next in its list, and the event that is bound.
    out
        Filled: (states, matches), the event of each state.
    """
    last = out.shape[0] - 1
    place, level, count, rounds, poll = cursor[TRIGGER], cursor[DEPTH], 0, 0, 0
    bound = low[rows[last]] if level < last else np.int64(0)
    while True:
        if level == last:
            if place == trigger.shape[0]:
                break
            if count >= poll:
                rounds = let_signals_in(rounds)
                poll = count + POLL
            at[last], level = trigger[place], last - 1
            rows[last] = record[at[last] + ROW]
            bound, at[level] = low[rows[last]], record[at[last] + LIST]
        following = at[level]
        if level == 1:
            # Most of the time goes to the first two states: nothing here asks for the level.
            begun = count
            following, first, count = _read_two(record, stamp, bound, following, out, count)
            for n in range(2, last + 1):
                for i in range(begun, count):
                    out[n, i] = rows[n]
            if first >= 0:
                rows[1] = record[following + ROW]
                at[1], at[0], level = following, first, 0
                break
            level = 2
            if level == last:
                place += 1
            else:
                at[level] = record[at[level] + LINK]
            continue
        # Records of a list are in descending order of their events.
        while following >= 0 and stamp[record[following + ROW]] >= bound:
            if level:
                if stamp[record[following + LATEST]] >= bound:
                    break
            else:
                if count == out.shape[1]:
                    break
                out[0, count] = record[following + ROW]
                for n in range(1, last + 1):
                    out[n, count] = rows[n]
                count += 1
            following = record[following + LINK]
        else:
            # The list has no other.
            level += 1
            if level == last:
                place += 1
            else:
                at[level] = record[at[level] + LINK]
            continue
        at[level] = following
        if not level:
            break
        rows[level] = record[following + ROW]
        level -= 1
        at[level] = record[following + LIST]
    cursor[TRIGGER], cursor[DEPTH], cursor[COUNT] = place, level, count
    return DONE if level == last else FULL
