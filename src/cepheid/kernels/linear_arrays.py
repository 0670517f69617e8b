"""Advance all stretches at once with whole-array operations: the interpreter's ``linear.py``.

A stretch is the events of one key in one window or pane. Stretches do not see each other, so one
step takes the events of one time of every stretch. The order of the additions to each number is
that of ``linear.advance``. Only doubles run here, and only as long as none is large: then a shared
exponent stays zero, and wide numbers equal doubles (``prefix_arrays.py``). All else declines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cepheid.kernels import prefix_arrays
from cepheid.kernels.distinct import distinct
from cepheid.kernels.linear import CONTIGUOUS, NEXT, NO_VALUE, OK
from cepheid.kernels.prefix_arrays import are_usual, widened
from cepheid.kernels.watch import check_time

LARGEST = 2.0**350
"""Numbers up to this one are never rescaled, and their products and sums are doubles."""


class Events(NamedTuple):
    """Events, with the number of the stretch of each."""

    ts: np.ndarray
    codes: np.ndarray
    letters: np.ndarray
    weights: np.ndarray
    stretch: np.ndarray


class Stretches:
    """The numbers of all stretches: [stretch, configuration, part and lane], and their starts."""

    def __init__(self, T: Any, V: np.ndarray, start: np.ndarray, wcol: Any, semantics: int) -> None:
        self.T, self.wcol, self.semantics, self.lanes = T, wcol, semantics, V.shape[3]
        self.V, self.start = V.reshape(len(V), V.shape[1], -1), start
        self.starting = min(V.shape[3], T.start.shape[1])
        self.finished = T.finished
        self.largest = 0.0

    def added(
        self, now: np.ndarray, start: np.ndarray, code: int, weights: Any, several: Any
    ) -> Any:
        """Yield the configurations that events of a code add to, and what they add."""
        T, lanes = self.T, self.lanes
        for t in range(T.target_ptr[code], T.target_ptr[code + 1]):
            q = T.target[t]
            row = np.zeros((len(now), now.shape[2]))
            for source in T.source[T.source_ptr[t] : T.source_ptr[t + 1]]:
                row += now[:, source]
            # Contiguous matches do not go on past tied events (``linear.advance``).
            if self.semantics == CONTIGUOUS and not self.finished[q]:
                row[several] = 0.0
            for lane in range(self.starting):
                row[:, lane] += (start[:, lane] >= 0) & T.start[t][start[:, lane]]
            for a, column in enumerate(self.wcol[T.variable[q]]):
                if a and column >= 0:
                    row[:, a * lanes : (a + 1) * lanes] += weights[column][:, None] * row[:, :lanes]
            yield q, row

    def leave(self, now: np.ndarray, start: np.ndarray, letters: np.ndarray) -> np.ndarray:
        """Move matches by the letters of a time; return the next starts."""
        T = self.T
        for letter in distinct(letters):
            first, last = T.move_ptr[letter], T.move_ptr[letter + 1]
            if first == last:
                continue
            here = np.flatnonzero(letters == letter)
            mine = now[here]
            moved = np.zeros_like(mine)
            for source, to in zip(T.move_from[first:last], T.move_to[first:last], strict=True):
                if to >= 0:
                    moved[:, to] += mine[:, source]
            mine[:, T.move_from[first:last]] = 0.0
            now[here] = mine + moved
        after = start.copy()
        first = start[:, : self.starting]
        after[:, : self.starting] = np.where(
            first >= 0, T.start_next[letters[:, None], first], first
        )
        return after

    def step(self, events: Events, owner: np.ndarray, rank: np.ndarray) -> None:
        """Apply the events of one time of every stretch; ``rank`` numbers those of one stretch."""
        active, place = np.unique(owner, return_inverse=True) if rank.any() else (owner, None)
        now, start = self.V[active], self.start[active]
        place = np.arange(len(owner)) if place is None else place
        several = np.bincount(place, minlength=len(active)) > 1
        more, cleared = np.zeros_like(now), []
        for number in range(int(rank.max()) + 1):
            for code in distinct(events.codes[rank == number]):
                mine = np.flatnonzero((rank == number) & (events.codes == code))
                at, weights = place[mine], events.weights[:, mine]
                for q, row in self.added(now[at], start[at], code, weights, several[at]):
                    more[at, q] += row
                cleared.append((at, code))
        if self.semantics == CONTIGUOUS:
            now[:, ~self.finished] = 0.0
        elif self.semantics == NEXT:
            ptr = self.T.clear_ptr
            for at, code in cleared:
                now[at[:, None], self.T.clear[ptr[code] : ptr[code + 1]]] = 0.0
        self.start[active] = self.leave(now, start, events.letters[np.flatnonzero(rank == 0)])
        now += more
        self.V[active] = now
        self.largest = max(self.largest, float(np.abs(now).max(initial=0.0)))

    def run(self, events: Events, *, grouped: bool) -> bool:
        """Apply all events; return False where a loop is faster, or numbers become large."""
        if not are_usual(events.weights):
            return False
        order = np.argsort(events.stretch, kind="stable")
        owner, ts = events.stretch[order], events.ts[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = owner[1:] != owner[:-1]
        first = new.copy()
        if grouped:
            # Events of one time are together if no other key stands between them.
            new[1:] |= (ts[1:] != ts[:-1]) | (np.diff(order) != 1)
        else:
            new[:] = True
        count = np.cumsum(new)
        step: np.ndarray = count - np.repeat(
            count[first], np.diff(np.flatnonzero(np.append(first, [True])))
        )
        rank = np.arange(len(new)) - np.flatnonzero(new)[count - 1]
        steps = int(step.max(initial=-1)) + 1
        if steps * prefix_arrays.EVENTS_A_STEP > len(order):
            return False
        by_step = np.argsort(step, kind="stable")
        bounds = np.searchsorted(step[by_step], np.arange(steps + 1))
        for n in range(steps):
            check_time()
            here = by_step[bounds[n] : bounds[n + 1]]
            index = order[here]
            some = Events(*(array[..., index] for array in events))
            self.step(some, owner[here], rank[here])
            if not self.largest <= LARGEST:
                return False
        return True


def stretches_of(key: np.ndarray, window: np.ndarray, opened: np.ndarray) -> tuple[np.ndarray, ...]:
    """Find the stretches of events: the open one of every key that occurs, then later ones.

    Returns
    -------
    The stretch of every event; and of every stretch its key, its window, its first event (-1: none)
    and whether it is the one that was open.
    """
    keys = distinct(key)
    at = np.concatenate((np.arange(-len(keys), 0), np.arange(len(key))))
    all_keys = np.concatenate((keys, key))
    windows = np.concatenate((opened[keys], np.maximum(window, opened[key])))
    order = np.lexsort((at, all_keys))
    changed = np.ones(len(order), np.bool_)
    changed[1:] = (np.diff(all_keys[order]) != 0) | (np.diff(windows[order]) != 0)
    stretch = np.empty(len(order), np.int64)
    stretch[order] = np.cumsum(changed) - 1
    first = order[changed]
    return stretch[len(keys) :], all_keys[first], windows[first], at[first], at[first] < 0


def closed_rows(counts: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up the configurations that count; return sums, and whether there is any match."""
    total = np.zeros((len(V), V.shape[2]))
    some = np.zeros(len(V), np.bool_)
    for q in np.flatnonzero(counts):
        present = V[:, q, 0] != 0.0
        total += np.where(present[:, None], V[:, q], 0.0)
        some |= present
    return total, some


def aggregate_linear(
    T, V, M, start, one, exponent, opened, ts, key, codes, letters, W, X, wcol, xcol, begin, width,
    grouped, semantics, unit, zero, p, out_key, out_start, R, RM,
):  # fmt: skip
    """Aggregate windows that do not overlap as ``linear.aggregate_linear`` does, or decline."""
    if V.dtype.char != "d" or M.shape[2] or begin == len(ts) or not V.size:
        return NotImplemented
    keys, ts = key[begin:], ts[begin:]
    if exponent[keys].any() or (one[keys, 0] != 1.0).any() or not np.abs(V[keys]).max() <= LARGEST:
        return NotImplemented
    window = ts // width * width if width > 0 else opened[keys]
    stretch, owner, windows, first, carried = stretches_of(keys, window, opened)
    state = np.where(carried[:, None, None, None], V[owner], 0.0)
    starts = np.where(carried[:, None], start[owner], 0).astype(start.dtype)
    all_ = Stretches(T, state, starts, wcol, semantics)
    events = Events(ts, codes[begin:], letters[begin:], W[:, begin:], stretch)
    if not all_.run(events, grouped=grouped):
        return NotImplemented
    last = np.append(owner[1:] != owner[:-1], [True])
    closed = np.flatnonzero(~last)
    total, some = closed_rows(T.counts, all_.V[closed])
    # A window ends with the first event after it.
    found = np.flatnonzero(some)[np.argsort(first[closed + 1][some])]
    rows = len(found)
    out_key[:rows], out_start[:rows] = owner[closed][found], windows[closed][found]
    R[:rows], RM[:rows] = widened(total[found]), NO_VALUE
    V[owner[last]] = all_.V[last].reshape(-1, *V.shape[1:])
    start[owner[last]], opened[owner[last]] = all_.start[last], windows[last]
    return OK, len(codes), rows
