"""List contiguous matches by one walk over the events, where no two events of a key have one time.

An event extends what ends with the previous event of its key, or nothing. So for each event and
state one number is kept: the latest event that begins one of the partial matches that end there.
Matches are read backwards from the events that end them, in the order of ``kernels/enumerate.py``.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.walk import BINDINGS, COUNT, DEPTH, DONE, FULL, TRIGGER

ROW, STATE, EDGE = range(3)
"""A frame: its event and state, and the edge that comes next."""


@kernel()
def find_previous(key, ts, last, previous):
    """Fill the row before each row that has the same key, -1 if there is none.

    Return whether two such rows have one time.
    """
    tied = False
    for row in range(key.shape[0]):
        before = last[key[row]]
        previous[row] = before
        last[key[row]] = row
        tied |= before >= 0 and ts[before] == ts[row]
    return tied


@find_previous.interpreted
def _(key, ts, last, previous):
    """Sort the rows by key."""
    order = np.argsort(key, kind="stable")
    previous[:] = -1
    same = key[order[1:]] == key[order[:-1]]
    later, before = order[1:][same], order[:-1][same]
    previous[later] = before
    return bool((ts[before] == ts[later]).any())


@kernel()
def find_latest(
    bits, previous, held, variable, edge_ptr, source, pair, final, stamp, low, wanted, latest,
    trigger,
):  # fmt: skip
    """Fill the latest begin of every event and state; return the number of those that end matches.

    Parameters
    ----------
    bits, previous, held
        For each event in time order: the variables that it may bind, the previous event of its key,
        and the pairs of variables that the two may take.
    variable, edge_ptr, source, pair, final
        For each state: its variable, its edges with their source (-1: a match begins) and pair, and
        whether a match may end there.
    stamp, low, wanted
        A match begins with an event whose stamp is not below ``low`` of its last event; ``wanted``
        marks events that end listed matches.
    latest
        Filled: -1 where no match is in a state. The first numbers, of no event, are -1.
    trigger
        Filled: the places of ``latest`` where matches end.
    """
    states, count, rounds = variable.shape[0], 0, 0
    for row in range(bits.shape[0]):
        rounds = let_signals_in(rounds)
        before, at = (previous[row] + 1) * states, (row + 1) * states
        for q in range(states):
            best = -1
            if bits[row] >> variable[q] & 1:
                for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                    if source[edge] < 0:
                        best = row
                    else:
                        # Without a branch, because nobody can guess what random data holds.
                        rejected = (held[row] >> pair[edge] & 1) - 1
                        best = max(best, latest[before + source[edge]] | rejected)
            latest[at + q] = best
            if final[q] and best >= 0 and wanted[row] and stamp[best] >= low[row]:
                trigger[count] = at + q
                count += 1
    return count


def _work(previous, held, variable, edge_ptr, source, pair, latest, trigger, *_):
    """Estimate the work: most events end few matches."""
    return float(trigger.shape[0]) * 4


@kernel(work=_work)
def read_neighbours(
    previous, held, variable, edge_ptr, source, pair, latest, trigger, stamp, low, cursor, frames,
    out_last, out_ptr, out_row, out_variable,
):  # fmt: skip
    """Write matches until there are no more, or the buffer is full; see ``walk.read_matches``."""
    states, place, depth = variable.shape[0], cursor[TRIGGER], cursor[DEPTH]
    count, at, rounds = cursor[COUNT], cursor[BINDINGS], 0
    bound = low[frames[0, ROW]] if depth else np.int64(0)
    while depth or place < trigger.shape[0]:
        if not depth:
            rounds = let_signals_in(rounds)
            state = trigger[place] % states
            frames[0, ROW], frames[0, STATE] = trigger[place] // states - 1, state
            frames[0, EDGE], depth = edge_ptr[state], 1
            bound = low[frames[0, ROW]]
        top = depth - 1
        row, state, edge = frames[top, ROW], frames[top, STATE], frames[top, EDGE]
        if edge == edge_ptr[state + 1]:
            depth -= 1
            place += depth == 0
            continue
        if source[edge] >= 0:
            frames[top, EDGE] = edge + 1
            best = latest[(previous[row] + 1) * states + source[edge]]
            if best >= 0 and held[row] >> pair[edge] & 1 and stamp[best] >= bound:
                frames[depth, ROW], frames[depth, STATE] = previous[row], source[edge]
                frames[depth, EDGE] = edge_ptr[source[edge]]
                depth += 1
            continue
        if count == out_last.shape[0] or at + depth > out_row.shape[0]:
            break
        frames[top, EDGE] = edge + 1
        for n in range(top, -1, -1):
            out_row[at] = frames[n, ROW]
            out_variable[at] = variable[frames[n, STATE]]
            at += 1
        out_last[count] = frames[0, ROW]
        count += 1
        out_ptr[count] = at
    cursor[TRIGGER], cursor[DEPTH], cursor[COUNT], cursor[BINDINGS] = place, depth, count, at
    return FULL if depth or place < trigger.shape[0] else DONE
