"""Find row pattern matches side by side: chunks of rows become functions, and these are joined.

``kernels/row_pattern_tables.py`` of the CPU tells what a letter, ``allowed``, ``completes`` and
``following`` are. Two passes go over the rows there. Both are products of small functions, which
can be computed chunk by chunk:

    backwards   which states may take a row: a function on sets of eight states; the image of a set
                is the union of the images of its members and of the empty set, so nine are enough
    forwards    which state takes a row: a function on nine states, of which 0 is no match

A thread computes the function of a chunk, one joins them, and a thread of each chunk fills it in.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64, uint8

from cepheid.kernels.row_pattern_tables import NONE, STATES_MAX

IMAGES = STATES_MAX + 1
"""States, and no match; or single states, and the empty set."""

UNTAKEN, BEGINS, CONTINUES, EMPTY = 0, 1, 2, 3
"""Kinds of rows: of no match, the first of one, a later one, or where an empty match is."""


@cuda.jit
def spell(masks, letters):
    """Write which conditions hold for every row, a bit for each."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), letters.shape[0], step):
        letter = int64(0)
        for c in range(masks.shape[0]):
            if masks[c, i] != 0:
                letter |= int64(1) << c
        letters[i] = letter


@cuda.jit
def map_backwards(letters, lasts, allowed, completes, chunk, maps):
    """Compute the function of each chunk, from the set after it to the set before it."""
    place = cuda.grid(1)
    if place >= maps.shape[0]:
        return
    images = cuda.local.array(IMAGES, uint8)
    for b in range(STATES_MAX):
        images[b] = np.uint8(1 << b)
    images[STATES_MAX] = np.uint8(0)
    begin = place * chunk
    end = min(begin + chunk, letters.shape[0])
    for k in range(end - begin):
        i = end - 1 - k
        here = allowed[letters[i]]
        for b in range(IMAGES):
            after = np.uint8(0) if lasts[i] != 0 else images[b]
            images[b] = here & completes[after]
    for b in range(IMAGES):
        maps[place, b] = images[b]


@cuda.jit
def join_backwards(maps, after):
    """Compute the set after each chunk, in one thread."""
    if cuda.grid(1) == 0:
        found = int64(0)
        for k in range(maps.shape[0]):
            place = maps.shape[0] - 1 - k
            after[place] = found
            united = int64(maps[place, STATES_MAX])
            for b in range(STATES_MAX):
                if found >> b & 1 == 1:
                    united |= int64(maps[place, b])
            found = united


@cuda.jit
def fill_backwards(letters, lasts, allowed, completes, chunk, after, viable):
    """Write the states that may take each row."""
    place = cuda.grid(1)
    if place >= after.shape[0]:
        return
    found = after[place]
    begin = place * chunk
    end = min(begin + chunk, letters.shape[0])
    for k in range(end - begin):
        i = end - 1 - k
        if lasts[i] != 0:
            found = np.uint8(0)
        found = allowed[letters[i]] & completes[found]
        viable[i] = found


@cuda.jit(device=True)
def take(following, viable, head, before):
    """Compute the state that takes a row after one that took the row before, and what the row is.

    A match that ends makes room for the next one in the same row.
    """
    if head == 0 and before != 0:
        target = int64(following[before, viable])
        if target not in (0, NONE):
            return target, CONTINUES
    target = int64(following[0, viable])
    if target == NONE:
        return int64(0), UNTAKEN
    return target, BEGINS if target != 0 else EMPTY


@cuda.jit
def map_forwards(viable, heads, following, chunk, maps):
    """Compute the function of each chunk, from the state before it to the state after it."""
    place = cuda.grid(1)
    if place >= maps.shape[0]:
        return
    images = cuda.local.array(IMAGES, uint8)
    for b in range(IMAGES):
        images[b] = b
    begin = place * chunk
    for i in range(begin, min(begin + chunk, viable.shape[0])):
        for b in range(IMAGES):
            before = int64(images[b]) if images[b] < following.shape[0] else int64(0)
            state, _ = take(following, viable[i], heads[i], before)
            images[b] = state
    for b in range(IMAGES):
        maps[place, b] = images[b]


@cuda.jit
def join_forwards(maps, before):
    """Compute the state before each chunk, in one thread."""
    if cuda.grid(1) == 0:
        state = int64(0)
        for place in range(maps.shape[0]):
            before[place] = state
            state = int64(maps[place, state])


@cuda.jit
def fill_forwards(viable, heads, following, chunk, before, states, kinds):
    """Write the state that takes each row, and what the row is."""
    place = cuda.grid(1)
    if place >= before.shape[0]:
        return
    state = int64(before[place])
    begin = place * chunk
    for i in range(begin, min(begin + chunk, viable.shape[0])):
        state, kind = take(following, viable[i], heads[i], state)
        states[i] = state
        kinds[i] = kind
