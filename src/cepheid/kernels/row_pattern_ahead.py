"""Find the rows from which a match can still be completed: O(rows x transitions), backwards.

Conditions that see the match so far are taken to hold. So where no match can be completed here,
none can with them, and a search that goes on from there goes on in vain.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.row_pattern import EDGE
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel()
def look_ahead(bounds, masks, mask_of, variable_of, first, moves, opened, out):
    """Mark, for every variable, the rows that it may take in a match; ``out`` begins as zeros.

    The arguments are those of ``row_pattern_search.py``. Rows that have not come yet may complete
    every match.
    """
    states, anchored = variable_of.shape[0], first.shape[0] > 1
    here, after = np.zeros(states, np.bool_), np.zeros(states, np.bool_)
    for p in range(bounds.shape[0] - 1):
        begin, stop = bounds[p], bounds[p + 1]
        let_signals_in(begin)
        edge = opened[p, EDGE] if opened.shape[0] > 0 else stop + 1
        for row in range(stop, begin, -1):
            # After a match has taken the row before: what may it do with this one?
            place = 2 if anchored and row == stop else 0
            for state in range(1, states):
                good = row >= edge
                for at in range(first[place, state], first[place, state + 1]):
                    target = moves[at]
                    if good or target == 0:
                        good = True
                        break
                    if row < stop and after[target]:
                        which = mask_of[variable_of[target]]
                        good = which < 0 or masks[which, row]
                here[state] = good
                if good:
                    out[variable_of[state], row - 1] = True
            for state in range(states):
                after[state] = here[state]
