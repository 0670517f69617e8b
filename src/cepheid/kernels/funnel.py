"""Funnels: follow the chains of every partition from step to step (§12.2).

A partition has at most one chain at each step: of two, the one that began later can do all that the
other can. Events of one time and partition are one group, because equal times never see each other;
a group is taken in once a later time comes. Steps are tried from the last to the first, so no
chain takes two steps in one group.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

NONE = -(2**63)
"""No chain, no time."""


@kernel()
def take_steps(
    ts, key, bits, within, arrival, order, single, ends, waiting, masks, worsts, chains, best, level
):
    """Take in events in the order of time; the group of each partition's last time waits.

    A group lets the chains of its partition move, start or end. It is known by the set of steps
    that its events fit, and the highest of their lowest steps, the number of steps if an event fits
    none. With a function for groups in place of one loop, the kernel takes three times as long.

    ts, key, bits: time, partition (-1 for none) and set of steps of every event
    within: the longest time from the first step, 0 for any; arrival, order, single: the modes
    ends: events only end the groups that wait
    waiting, masks, worsts: of each partition the time, set of steps and worst step of its group
    chains[p, k]: the times of the chain of partition p that has reached step k
    best, level: the times of the first chain that reached the highest step, and this step
    """
    steps, count = best.shape[1], ts.shape[0]
    for i in range(count):
        bit, p = np.int64(bits[i]), key[i]
        if p < 0 or (bit == 0 and not (order or ends)):
            continue
        lowest = 0
        while order and lowest < steps and not bit >> lowest & 1:
            lowest += 1
        # No other event of these has its time; events before and after these may have.
        alone = 0 < i < count - 1 and ts[i - 1] < ts[i] < ts[i + 1]
        is_own = False
        while not is_own:
            if not arrival and waiting[p] != NONE and waiting[p] != ts[i]:
                time, mask, worst = waiting[p], masks[p], worsts[p]
                waiting[p] = NONE
            elif ends:
                break
            elif arrival or alone:
                time, mask, worst = ts[i], bit, lowest
                is_own = True
            else:
                if waiting[p] == NONE:
                    waiting[p], masks[p], worsts[p] = ts[i], 0, 0
                masks[p] |= bit
                worsts[p] = max(worsts[p], lowest)
                break
            for k in range(steps - 1, 0, -1):
                fits = mask >> k & 1
                if not (fits or order or single):
                    continue
                start = chains[p, k - 1, 0]
                if start == NONE:
                    continue
                if fits:
                    chains[p, k - 1, 0] = NONE
                    if within > 0 and time - start > within:
                        continue
                    if k + 1 > level[p]:
                        level[p] = k + 1
                        best[p, k] = time
                        best[p, 0] = start
                        for j in range(1, k):
                            best[p, j] = chains[p, k - 1, j]
                    chains[p, k, 0] = start
                    for j in range(1, k):
                        chains[p, k, j] = chains[p, k - 1, j]
                    chains[p, k, k] = time
                elif (order and worst > k) or (single and mask & ((1 << k) - 1)):
                    chains[p, k - 1, 0] = NONE
            if mask & 1:
                chains[p, 0, 0] = time
                if level[p] == 0:
                    level[p] = 1
                    best[p, 0] = time
