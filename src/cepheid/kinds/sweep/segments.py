"""Segments, the events of a key in a pane, as step functions: in full, or what began in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cepheid.kinds.sweep.steps import Ints, Nodes, Product, pointers, reduce_nodes, spread


class Segments(NamedTuple):
    """Nodes, each with its key and its pane."""

    nodes: Nodes
    key: Ints
    pane: Ints

    def take(self, which: Ints) -> Segments:
        """Choose some of the nodes."""
        return Segments(self.nodes.take(which), self.key[which], self.pane[which])

    @staticmethod
    def joined(several: list[Segments]) -> Segments:
        """Concatenate the nodes of several."""
        if len(several) == 1:
            return several[0]
        return Segments(
            Nodes.joined([one.nodes for one in several]),
            np.concatenate([one.key for one in several]),
            np.concatenate([one.pane for one in several]),
        )


def numbered(*columns: Ints) -> Ints:
    """Give a number to every run of equal rows."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.cumsum(new) - 1


def firsts(segment: Ints) -> Ints:
    """Find where each number begins."""
    return np.flatnonzero(np.diff(segment, prepend=-1) != 0)


def multiplied(segments: Segments, product: Product, *parts: Ints) -> Segments:
    """Multiply the nodes of every key and pane, in order; or only those of equal ``parts``."""
    order = np.lexsort((*parts, segments.pane, segments.key))
    key, pane = segments.key[order], segments.pane[order]
    segment = numbered(key, pane, *(part[order] for part in parts))
    nodes, _ = reduce_nodes(segments.nodes, order, segment, product.pairs)
    first = firsts(segment)
    return Segments(nodes, key[first], pane[first])


def shares(segments: Segments, most: int) -> Iterator[Segments]:
    """Split segments into shares of whole keys, of about as many cells as are wanted."""
    order = np.argsort(segments.key, kind="stable")
    key, cells = segments.key[order], np.cumsum(segments.nodes.counts[order])
    first = firsts(numbered(key))
    share = cells[first] // most
    cuts = first[1:][np.diff(share) > 0]
    for part in np.split(order, cuts):
        yield segments.take(part)


def began(segments: Segments) -> Segments:
    """Keep of matrices what begins in them: one lane."""
    numbers, values, start = segments.nodes.arrays
    lanes = tuple(np.ascontiguousarray(array[:, :, :1]) for array in (numbers, values))
    arrays = (*lanes, np.ascontiguousarray(start[:1]))
    return segments._replace(nodes=segments.nodes._replace(arrays=arrays))


def fold(before: Segments | None, segments: Segments, product: Product) -> Segments:
    """Multiply what began in segments by the matrices that follow, one after the other.

    A vector costs a fraction of a matrix, and has all that a result needs.

    Parameters
    ----------
    before
        What began so far, one node for every key and pane.
    segments
        Matrices in the order of keys, panes and time, several for a key and pane.
    """
    segment = numbered(segments.key, segments.pane)
    first = firsts(segment)
    counts = np.diff(first, append=len(segment))
    known = {} if before is None else dict(zip(_names(before), range(len(before.key)), strict=True))
    heads = Segments(segments.nodes, segments.key[first], segments.pane[first])
    place = np.array([known.get(name, -1) for name in _names(heads)], np.int64)
    begun: list[Segments] = []
    old, new = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
    # A segment goes on from its vector, or begins with its first matrix.
    next_node = first + (place < 0)
    parts = []
    if len(old) and before is not None:
        parts.append(before.take(place[old]))
    if len(new):
        parts.append(began(segments.take(first[new])))
    going, which = Segments.joined(parts), np.concatenate([old, new])
    left = (counts - (place < 0))[which]
    if before is not None:
        rest = np.setdiff1d(np.arange(len(before.key)), place[old])
        begun += [before.take(rest)] if len(rest) else []
    while len(which):
        ended = left == 0
        if ended.any():
            begun.append(going if ended.all() else going.take(np.flatnonzero(ended)))
            still = np.flatnonzero(~ended)
            going, which, left = going.take(still), which[still], left[still]
            continue
        matrices = segments.nodes.take(next_node[which])
        pairs = np.arange(len(which))
        nodes = product.of(going.nodes, matrices, pairs, pairs)
        going = going._replace(nodes=nodes)
        next_node[which] += 1
        left = left - 1
    return Segments.joined(begun)


def _names(segments: Segments) -> list[tuple[int, int]]:
    return list(zip(segments.key.tolist(), segments.pane.tolist(), strict=True))


def windows_of(segments: Segments, product: Product, panes: int, slide: int) -> Segments:
    """Multiply panes to windows that overlap; ``pane`` is then the pane before which they end."""
    # A pane is in the windows that begin at most ``panes`` before its end, at multiples of slide.
    begins = -(-(segments.pane + 1 - panes) // slide) * slide
    counts = (segments.pane - begins) // slide + 1
    ptr = pointers(counts)
    refs = np.repeat(np.arange(len(counts)), counts)
    ends = begins[refs] + slide * spread(np.zeros(len(counts), np.int64), counts, ptr) + panes
    order = np.lexsort((refs, ends, segments.key[refs]))
    refs, ends = refs[order], ends[order]
    key = segments.key[refs]
    segment = numbered(key, ends)
    nodes, _ = reduce_nodes(segments.nodes, refs, segment, product.pairs)
    first = firsts(segment)
    return Segments(nodes, key[first], ends[first])
