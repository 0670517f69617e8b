"""Aggregate sliding windows with whole-array operations: the interpreter's body of ``panes.py``.

The matrices of all panes are computed at once (``linear_arrays.py``), then the products of all
blocks side by side: the n-th pane of every block in one step. Every product has the factors that it
has in ``panes.py``. Panes without a NOT never change the starts of their lanes, so that a lane
begins as itself, or with a configuration; others decline, and so do extremes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cepheid.kernels.distinct import distinct
from cepheid.kernels.linear import NO_VALUE, OK
from cepheid.kernels.linear_arrays import LARGEST, Events, Stretches, closed_rows, stretches_of
from cepheid.kernels.prefix_arrays import doubles_of, widened


class Panes(NamedTuple):
    """Panes of all keys, in order, with a matrix each [configuration, part, lane]."""

    key: np.ndarray
    pane: np.ndarray
    matrix: np.ndarray


def _times(X: np.ndarray, B: np.ndarray, nS: int) -> np.ndarray:
    """Multiply matrices pair by pair, as ``panes.product`` does; ``X`` may have its first lanes."""
    lanes, starting = X.shape[3], min(X.shape[3], nS)
    out = np.zeros((len(X), B.shape[1], B.shape[2], lanes))
    out[..., :starting] = B[..., :starting]
    for r in range(B.shape[1]):
        count, mine = B[:, :, 0, nS + r, None], X[:, None, r, 0]
        out[:, :, 0] += mine * count
        for a in range(1, B.shape[2]):
            out[:, :, a] += mine * B[:, :, a, nS + r, None] + X[:, None, r, a] * count
    return out


def _scan(owner: np.ndarray, matrix: np.ndarray, nS: int, *, backwards: bool) -> np.ndarray:
    """Multiply the matrices of every owner one after the other; return all products on the way."""
    found = matrix.copy()
    if backwards:
        owner, found = owner[::-1], found[::-1]
    first = np.flatnonzero(np.append([True], owner[1:] != owner[:-1])[: len(owner)])
    rank = np.arange(len(owner)) - np.repeat(first, np.diff(np.append(first, len(owner))))
    for n in range(1, int(rank.max(initial=0)) + 1):
        at = np.flatnonzero(rank == n)
        before, own = found[at - 1], found[at]
        found[at] = _times(own, before, nS) if backwards else _times(before, own, nS)
    return found[::-1] if backwards else found


class Blocks:
    """The panes of all keys in blocks, with their products from both sides."""

    def __init__(self, panes: Panes, size: int, nS: int, before: Panes) -> None:
        """``before`` are suffixes of the blocks before the first, as vectors of one lane."""
        order = np.lexsort((panes.pane, panes.key))
        self.panes, self.size, self.nS, self.before = (
            Panes(*(a[order] for a in panes)),
            size,
            nS,
            before,
        )
        key, pane = self.panes.key, self.panes.pane
        self.number = number = pane // size
        owner = np.cumsum(
            np.append([True], (np.diff(key) != 0) | (np.diff(number) != 0))[: len(key)]
        )
        self.prefix = _scan(owner, self.panes.matrix, nS, backwards=False)
        self.suffix = _scan(owner, self.panes.matrix, nS, backwards=True)

    @property
    def fits(self) -> bool:
        """Whether all numbers are doubles with room for one more product."""
        return bool(
            np.abs(self.prefix).max(initial=0.0) <= LARGEST
            and np.abs(self.suffix).max(initial=0.0) <= LARGEST
        )

    def _index(self, key: np.ndarray, pane: np.ndarray) -> np.ndarray:
        """Find the first pane that is not before a pane of a key."""
        low = int(self.panes.pane.min(initial=0))
        span = int(self.panes.pane.max(initial=0)) - low + 2
        mine = self.panes.key * span + self.panes.pane - low
        found: np.ndarray = np.searchsorted(mine, key * span + np.clip(pane - low, 0, span - 1))
        return found

    def suffix_from(self, key: np.ndarray, pane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the products from panes to the ends of their blocks, and whether there are any."""
        vector = np.zeros((len(key), *self.suffix.shape[1:3], 1))
        there = np.zeros(len(key), np.bool_)
        if len(self.number):
            at = self._index(key, pane)
            safe = np.minimum(at, len(self.number) - 1)
            there = (at == safe) & (self.panes.key[safe] == key)
            there &= self.number[safe] == pane // self.size
            vector[there] = self.suffix[safe[there]][..., :1]
        low = int(self.before.pane.min(initial=0))
        span = int(self.before.pane.max(initial=0)) - low + 2
        known = self.before.key * span + self.before.pane - low
        at = np.searchsorted(known, key * span + np.clip(pane - low, 0, span - 1))
        at = np.minimum(at, len(known) - 1)
        if len(known):
            mine = (self.before.key[at] == key) & (self.before.pane[at] == pane)
            vector[mine], there[mine] = self.before.matrix[at[mine]], True
        return vector, there

    def prefix_upto(self, key: np.ndarray, pane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the products from the beginnings of blocks to before panes, and whether any."""
        matrix = np.zeros((len(key), *self.prefix.shape[1:]))
        there = np.zeros(len(key), np.bool_)
        if len(self.number):
            at = self._index(key, pane) - 1
            safe = np.maximum(at, 0)
            there = (at >= 0) & (self.panes.key[safe] == key)
            there &= self.number[safe] == (pane - 1) // self.size
            matrix[there] = self.prefix[safe[there]]
        return matrix, there

    def results(self, key: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Compute the vectors of windows that end before panes: suffix times prefix."""
        matrix, begun = self.prefix_upto(key, end)
        vector, whole = self.suffix_from(key, end - self.size)
        whole &= end % self.size > 0
        found = np.where(whole[:, None, None], vector[..., 0], matrix[..., 0])
        both = np.flatnonzero(whole & begun)
        found[both] = _times(vector[both], matrix[both], self.nS)[..., 0]
        found[~(whole | begun)] = 0.0
        return found


def _stored(B: Any, keys: np.ndarray, pane: np.ndarray) -> tuple[Panes, Panes] | None:
    """Read the panes of open blocks, and the suffixes of the blocks before them."""
    P, A, has, tail = B[0], B[8], B[3][keys], B[11][keys]
    size = P.shape[1]
    found = []
    for marks, numbers, back in ((has, P, 0), (tail, A, 1)):
        at, offset = np.nonzero(marks)
        matrix = doubles_of(numbers[keys[at], offset], LARGEST)
        if matrix is None:
            return None
        number = pane[keys[at]] // size - back
        found.append(Panes(keys[at], number * size + offset, matrix))
    return found[0], found[1]


def _store(B: Any, blocks: Blocks, key: np.ndarray, pane: np.ndarray) -> None:
    """Write the open blocks of keys, and the suffixes of the blocks before them."""
    P, _, PS, has, F, _, FS, begun, A, _, AS, tail = B
    size, lanes = P.shape[1], P.shape[4]
    starts = np.where(np.arange(lanes) < blocks.nS, np.arange(lanes), -1)
    place = np.full(int(key.max()) + 1, -1)
    place[key] = np.arange(len(key))
    mine = blocks.panes
    here = np.flatnonzero(blocks.number == pane[place[mine.key]] // size)
    has[key] = False
    has[mine.key[here], mine.pane[here] % size] = True
    P[mine.key[here], mine.pane[here] % size] = widened(mine.matrix[here])
    PS[mine.key[here], mine.pane[here] % size] = starts
    matrix, there = blocks.prefix_upto(key, pane)
    there &= pane % size > 0
    begun[key] = there
    F[key[there]], FS[key[there]] = widened(matrix[there]), starts
    offsets = np.tile(np.arange(size), len(key))
    owners = np.repeat(key, size)
    first = (np.repeat(pane, size) // size - 1) * size + offsets
    vector, some = blocks.suffix_from(owners, first)
    tail[owners, offsets] = some
    A[owners[some], offsets[some]] = widened(vector[some])
    AS[owners[some], offsets[some]] = 0


def _ends(
    blocks: Blocks, owner: np.ndarray, opened: np.ndarray, upto: np.ndarray, slide: int
) -> Any:
    """List the keys and ends of the windows that can have matches and are known."""
    size = blocks.size
    keys = np.concatenate((blocks.panes.key, blocks.before.key))
    panes = np.concatenate((blocks.panes.pane, blocks.before.pane))
    key, end = np.repeat(keys, size), (panes[:, None] + np.arange(1, size + 1)).reshape(-1)
    place = np.searchsorted(owner, key)
    fits = (end > opened[place]) & (end <= upto[place]) & ((end - size) % slide == 0)
    pairs = np.unique(np.stack((key[fits], end[fits])), axis=1)
    return pairs[0], pairs[1]


def aggregate_panes(
    T, V, M, start, one, exponent, pane, dirty, B, ts, key, codes, letters, W, X, wcol, xcol, begin,
    width, slide, grouped, semantics, nS, unit, zero, p, out_key, out_end, R, RM,
):  # fmt: skip
    """Aggregate sliding windows as ``panes.aggregate_panes`` does, or decline."""
    fixed = (T.start_next == np.arange(T.start_next.shape[1])).all() and not len(T.move_from)
    if V.dtype.char != "d" or M.shape[2] or not fixed or begin == len(ts) or not V.size:
        return NotImplemented
    keys, ts = key[begin:], ts[begin:]
    usual = not exponent[keys].any() and (one[keys] == 1.0).all()
    stored = _stored(B, distinct(keys), pane) if usual else None
    if stored is None or not np.abs(V[keys]).max() <= LARGEST:
        return NotImplemented
    stretch, owner, panes, first, carried = stretches_of(keys, ts // width, pane)
    state = np.zeros((len(owner), *V.shape[1:]))
    state[:, np.arange(V.shape[1]), 0, nS + np.arange(V.shape[1])] = 1.0
    state[carried] = V[owner[carried]]
    all_ = Stretches(T, state, start[owner], wcol, semantics)
    events = Events(ts, codes[begin:], letters[begin:], W[:, begin:], stretch)
    if not all_.run(events, grouped=grouped):
        return NotImplemented
    matrix = all_.V.reshape(state.shape)
    last = np.append(owner[1:] != owner[:-1], [True])
    # Without events there is no pane, so that the first one of a key can be empty.
    closed = ~last & (np.bincount(stretch, minlength=len(owner)) + dirty[owner] * carried > 0)
    new = Panes(*(np.concatenate(both) for both in zip(
        stored[0], (owner[closed], panes[closed], matrix[closed]), strict=True
    )))  # fmt: skip
    blocks = Blocks(new, B[0].shape[1], nS, stored[1])
    own, opened, upto = owner[last], pane[owner[last]], panes[last]
    if (
        not blocks.fits
        or int(own.max() + 1) * int(np.abs(panes[~carried]).max(initial=0) + 1) > 2**60
    ):
        return NotImplemented
    key_of, end = _ends(blocks, own, opened, upto, slide)
    total, some = closed_rows(T.counts, blocks.results(key_of, end))
    rows = int(some.sum())
    if rows > len(out_key) or not np.abs(total).max(initial=0.0) <= 2.0**1000:
        return NotImplemented
    # A window is known with the first event of its key after it.
    lowest = int(end.min(initial=0))
    span = max(int(upto.max()) - lowest, 0) + 2
    known = np.searchsorted(
        owner * span + np.clip(panes - lowest + 1, 0, span - 1), key_of * span + end - lowest + 1
    )
    found = np.flatnonzero(some)[np.lexsort((end[some], first[known[some]]))]
    out_key[:rows], out_end[:rows] = key_of[found], end[found]
    R[:rows], RM[:rows] = widened(total[found]), NO_VALUE
    _store(B, blocks, own, upto)
    pane[own], V[own], dirty[own] = upto, matrix[last], True
    return OK, len(codes), rows
