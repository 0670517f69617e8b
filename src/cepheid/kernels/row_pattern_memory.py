"""Remember states of a search that failed, by 128-bit hashes of all that later conditions read."""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel


@kernel()
def _mix(h, x):
    """Mix one more number into a hash (the finaliser of splitmix64)."""
    h = h ^ x
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)


@kernel()
def sign_state(
    row, target, depth, views, places, counts, tallies, path, variable_of, label_views, bits, out
):
    """Hash a state of the search, with everything that later conditions can read, to two numbers.

    views: sets of variables and the number of their first and last rows that conditions may read;
    label_views: the number of labels that they may read, from the start and from the end.
    """
    for k in range(2):
        h = _mix(np.uint64(0x243F6A8885A308D3 if k == 0 else 0x13198A2E03707344), np.uint64(row))
        h = _mix(h, np.uint64(target))
        for v in range(views.shape[0]):
            s, heads, tails = views[v, 0], views[v, 1], views[v, 2]
            for i in range(min(heads, counts[s])):
                h = _mix(h, np.uint64(places[s, i]))
            h = _mix(h, np.uint64(0xFFFF))
            for i in range(max(0, counts[s] - tails), counts[s]):
                h = _mix(h, np.uint64(places[s, i]))
            h = _mix(h, np.uint64(0xFFFE))
        for i in range(1, min(label_views[0], depth) + 1):
            h = _mix(h, np.uint64(variable_of[path[i]]))
        for i in range(max(1, depth + 1 - label_views[1]), depth + 1):
            h = _mix(h, np.uint64(variable_of[path[i]]))
        for t in range(tallies.shape[0]):
            for j in range(2):
                bits[0] = tallies[t, depth, j]
                h = _mix(h, bits.view(np.uint64)[0])
        out[k] = h | np.uint64(1) if k == 0 else h


@kernel()
def slot_of(keys, generations, generation, key):
    """Find the slot of a key, or the free slot for it as -1 - slot."""
    mask = keys.shape[0] - 1
    at = np.int64(key[0] & np.uint64(mask))
    while generations[at] == generation:
        if keys[at, 0] == key[0] and keys[at, 1] == key[1]:
            return at
        at = (at + 1) & mask
    return -1 - at


@kernel()
def _grown(keys, generations, generation):
    """Build a table twice as large with the entries of a generation."""
    wider = np.zeros((2 * keys.shape[0], 2), np.uint64)
    new_generations = np.zeros(2 * keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        if generations[i] == generation:
            at = -1 - slot_of(wider, new_generations, generation, keys[i])
            wider[at, 0], wider[at, 1] = keys[i, 0], keys[i, 1]
            new_generations[at] = generation
    return wider, new_generations


@kernel(inline="code")
def keep_failure(keys, generations, generation, kept, key):
    """Insert a key; return the table, which may have grown, and its number of keys."""
    slot = slot_of(keys, generations, generation, key)
    if slot < 0:
        slot = -1 - slot
        keys[slot, 0], keys[slot, 1] = key[0], key[1]
        generations[slot] = generation
        kept += 1
    if 2 * kept > keys.shape[0]:
        keys, generations = _grown(keys, generations, generation)
    return keys, generations, kept
