"""Stack-based sequences with a trailing window, as A-Seq's section 2.2 describes them.

Every event lies on the stack of its type. An event of the last type is the root of a search through
the stacks of the types before it, which builds every match that it ends; a NOT is checked when a
match has been built. E-Cube (Liu et al., SIGMOD 2011) builds the matches of a part that queries
share once, and joins their first and last events to them. Times rise strictly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.template import TYPES, Integers

Codes = npt.NDArray[np.int8]
STEPS_MAX = 300_000_000


class Built(NamedTuple):
    """The sum of the counts whenever a match ends, and the most objects that were kept at once."""

    total: float
    kept: int


def build_within(
    times_us: Integers, codes: Codes, types: str, within_us: int, negated: str = ""
) -> Built | None:
    """Build the matches of a SEQ of distinct types; none if that takes too many steps."""
    letters = [TYPES.index(letter) for letter in types]
    forbidden = TYPES.index(negated) if negated else -1
    total, kept, steps = _build(
        times_us, codes, np.array(letters, np.int64), within_us, forbidden, STEPS_MAX
    )
    return Built(total, kept) if steps <= STEPS_MAX else None


@kernel
def _build(
    times_us: Integers,
    codes: Codes,
    letters: Integers,
    within_us: int,
    forbidden: int,
    steps_max: int,
) -> tuple[float, int, int]:
    length, n = letters.size, codes.size
    stacks = np.zeros((length, n), np.int64)
    heads, tops = np.zeros(length, np.int64), np.zeros(length, np.int64)
    begun = np.zeros(n)  # How many matches began with an event.
    path, places = np.zeros(length, np.int64), np.zeros(length, np.int64)
    alive, total, kept, steps = 0.0, 0.0, 0, 0
    for i in range(n):
        position = -1
        for p in range(length):
            if letters[p] == codes[i]:
                position = p
        if position < 0:
            continue
        objects = 0
        for p in range(length):
            while heads[p] < tops[p] and times_us[stacks[p, heads[p]]] <= times_us[i] - within_us:
                if p == 0:
                    alive -= begun[stacks[0, heads[0]]]
                heads[p] += 1
            objects += 2 * (tops[p] - heads[p])
        if position < length - 1:
            stacks[position, tops[position]] = i
            tops[position] += 1
            continue
        depth, path[length - 1], found = length - 2, i, 0.0
        places[depth] = tops[depth]
        while depth < length - 1:
            places[depth] -= 1
            steps += 1
            if places[depth] < heads[depth]:
                depth += 1
                continue
            event = stacks[depth, places[depth]]
            if event > path[depth + 1]:
                continue
            path[depth] = event
            if depth > 0:
                depth -= 1
                places[depth] = tops[depth]
                continue
            fits = True
            if forbidden >= 0:
                for k in range(path[length - 2] + 1, i):
                    steps += 1
                    fits &= codes[k] != forbidden
            if fits:
                found += 1
                begun[path[0]] += 1
        alive += found
        kept = max(kept, objects + int(alive))
        if found > 0:
            total += alive
        if steps > steps_max:
            break
    return total, kept, steps


def build_shared(
    times_us: Integers, codes: Codes, queries: list[str], within_us: int
) -> float | None:
    """Build the matches of SEQs that share all but their first and last types, as E-Cube does."""
    shared = [TYPES.index(letter) for letter in queries[0][1:-1]]
    begins, ends, steps = _parts(times_us, codes, np.array(shared), within_us, STEPS_MAX)
    if steps > STEPS_MAX:
        return None
    total = 0.0
    for query in queries:
        first, last = TYPES.index(query[0]), TYPES.index(query[-1])
        found, steps = _join(times_us, codes, begins, ends, first, last, within_us, STEPS_MAX)
        if steps > STEPS_MAX:
            return None
        total += found
    return total


@kernel
def _parts(
    times_us: Integers, codes: Codes, letters: Integers, within_us: int, steps_max: int
) -> tuple[Integers, Integers, int]:
    """Return the first and last events of all matches of the shared part, by their ends."""
    length, n = letters.size, codes.size
    begins, ends = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    path = np.zeros(length, np.int64)
    count, steps = 0, 0
    for i in range(n):
        if codes[i] != letters[length - 1]:
            continue
        path[:] = i
        depth = length - 2
        while depth < length - 1:
            path[depth] -= 1
            steps += 1
            if path[depth] < 0 or times_us[path[depth]] <= times_us[i] - within_us:
                depth += 1
                continue
            if codes[path[depth]] != letters[depth]:
                continue
            if depth > 0:
                depth -= 1
                path[depth] = path[depth + 1]
                continue
            if count == begins.size:
                begins = np.concatenate((begins, np.zeros_like(begins)))
                ends = np.concatenate((ends, np.zeros_like(ends)))
            begins[count], ends[count] = path[0], i
            count += 1
        if steps > steps_max:
            break
    return begins[:count], ends[:count], steps


@kernel
def _join(
    times_us: Integers,
    codes: Codes,
    begins: Integers,
    ends: Integers,
    first: int,
    last: int,
    within_us: int,
    steps_max: int,
) -> tuple[float, int]:
    begun = np.zeros(codes.size)
    alive, total, steps, oldest, low, high = 0.0, 0.0, 0, 0, 0, 0
    for i in range(codes.size):
        if codes[i] != last:
            continue
        since = times_us[i] - within_us
        while times_us[oldest] <= since:
            alive -= begun[oldest]
            oldest += 1
        while high < ends.size and ends[high] < i:
            high += 1
        while low < high and times_us[ends[low]] <= since:
            low += 1
        found = 0.0
        for part in range(low, high):
            for k in range(oldest, begins[part]):
                steps += 1
                if codes[k] == first:
                    found += 1
                    begun[k] += 1
        alive += found
        if found > 0:
            total += alive
        if steps > steps_max:
            break
    return total, steps
