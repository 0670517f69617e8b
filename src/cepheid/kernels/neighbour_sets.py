"""List contiguous matches without windows by tables: as ``neighbours.py``, with fewer steps.

Where no window bounds a match, it does not matter which event begins it. So for each event one set
is kept: the states in which a partial match ends there. Sets are bytes, and each event looks into
two tables.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.walk import BINDINGS, COUNT, DEPTH, DONE, FULL, TRIGGER

STATES_MAX = 8
"""States of a set, variables of an event, and pairs of variables that two events may take."""

ROW, STATE, REST = range(3)
"""A frame: its event and state, and the sources that are not tried yet: bit 0 begins the match,
bit s + 1 is state s."""


@kernel()
def find_sets(bits, previous, held, fitting, follows, begins, final, wanted, sets, trigger):
    """Fill the set of every event; return the number of those that end matches.

    Parameters
    ----------
    bits, previous, held
        For each event in time order: the variables that it may bind, the previous event of its key,
        and the pairs of variables that the two may take.
    fitting, follows
        The states of some variables; the states that may follow those of a set if pairs are held.
    begins, final
        The states that a match begins and ends with.
    wanted
        Marks events that end listed matches.
    sets
        Filled: the set of event i is ``sets[i + 1]``; that of no event is empty.
    trigger
        Filled: event and state, as one number, of the ends of matches.
    """
    count, rounds, sets[0] = 0, 0, 0
    for row in range(bits.shape[0]):
        rounds = let_signals_in(rounds)
        before = sets[previous[row] + 1]
        found = fitting[bits[row]] & (begins | follows[held[row], before])
        sets[row + 1] = found
        ends = np.int64(found & final)
        if ends and wanted[row]:
            for state in range(STATES_MAX):
                if ends >> state & 1:
                    trigger[count] = row * STATES_MAX + state
                    count += 1
    return count


@kernel(inline="code")
def _open(frame, row, state, previous, held, sources, begins, sets):
    """Push an event in a state, none of whose sources has been tried."""
    earlier = np.int64(sources[held[row], state] & sets[previous[row] + 1])
    frame[ROW], frame[STATE] = row, state
    frame[REST] = earlier << 1 | (np.int64(begins) >> state & 1)


def _work(previous, held, variable, sources, begins, sets, trigger, *_):
    """Estimate the work: most events end few matches."""
    return float(trigger.shape[0]) * 4


@kernel(work=_work)
def read_sets(
    previous, held, variable, sources, begins, sets, trigger, cursor, frames, out_last, out_ptr,
    out_row, out_variable,
):  # fmt: skip
    """Write matches until there are no more, or the buffer is full; see ``walk.read_matches``.

    ``sources`` has the states from which pairs that are held lead to a state.
    """
    place, depth, count, at = cursor[TRIGGER], cursor[DEPTH], cursor[COUNT], cursor[BINDINGS]
    rounds = 0
    while depth or place < trigger.shape[0]:
        if not depth:
            rounds = let_signals_in(rounds)
            row, state = trigger[place] // STATES_MAX, trigger[place] % STATES_MAX
            _open(frames[0], row, state, previous, held, sources, begins, sets)
            depth = 1
        top = depth - 1
        rest = frames[top, REST]
        if not rest:
            depth -= 1
            place += depth == 0
            continue
        if rest & 1:
            if count == out_last.shape[0] or at + depth > out_row.shape[0]:
                break
            for n in range(top, -1, -1):
                out_row[at], out_variable[at] = frames[n, ROW], variable[frames[n, STATE]]
                at += 1
            out_last[count] = frames[0, ROW]
            count += 1
            out_ptr[count] = at
            frames[top, REST] = rest - 1
            continue
        source = 0
        while not rest >> (source + 1) & 1:
            source += 1
        frames[top, REST] = rest & (rest - 1)
        row = previous[frames[top, ROW]]
        _open(frames[depth], row, source, previous, held, sources, begins, sets)
        depth += 1
    cursor[TRIGGER], cursor[DEPTH], cursor[COUNT], cursor[BINDINGS] = place, depth, count, at
    return FULL if depth or place < trigger.shape[0] else DONE
