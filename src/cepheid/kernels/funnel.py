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
def _take_group(p, time, mask, worst, within, order, single, chains, best, level):
    """Let one group of events move, start or end the chains of a partition.

    mask is the set of steps that events of the group fit; worst is the highest of their lowest
    steps, the number of steps if an event fits none.
    """
    steps = best.shape[1]
    for k in range(steps - 1, 0, -1):
        start = chains[p, k - 1, 0]
        if start == NONE:
            continue
        if mask >> k & 1:
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


@kernel()
def take_steps(
    ts, key, bits, within, arrival, order, single, waiting, masks, worsts, chains, best, level
):
    """Take in events in the order of time; the group of each partition's last time waits.

    ts, key, bits: time, partition (-1 for none) and set of steps of every event
    within: the longest time from the first step, 0 for any; arrival, order, single: the modes
    waiting, masks, worsts: of each partition the time, set of steps and worst step of its group
    chains[p, k]: the times of the chain of partition p that has reached step k
    best, level: the times of the first chain that reached the highest step, and this step
    """
    steps = best.shape[1]
    for i in range(ts.shape[0]):
        mask, p = np.int64(bits[i]), key[i]
        if p < 0 or (mask == 0 and not order):
            continue
        lowest = 0
        while order and lowest < steps and not mask >> lowest & 1:
            lowest += 1
        if arrival:
            _take_group(p, ts[i], mask, lowest, within, order, single, chains, best, level)
            continue
        if waiting[p] != ts[i]:
            if waiting[p] != NONE:
                _take_group(
                    p, waiting[p], masks[p], worsts[p], within, order, single, chains, best, level
                )
            waiting[p], masks[p], worsts[p] = ts[i], 0, 0
        masks[p] |= mask
        worsts[p] = max(worsts[p], lowest)


@kernel()
def take_waiting(within, order, single, waiting, masks, worsts, chains, best, level):
    """Take in the groups that wait: no more events come."""
    for p in range(waiting.shape[0]):
        if waiting[p] != NONE:
            _take_group(
                p, waiting[p], masks[p], worsts[p], within, order, single, chains, best, level
            )
            waiting[p] = NONE
