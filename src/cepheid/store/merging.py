"""Merge sorted pieces of a stream by time, then by the order of their segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.store.times import Times

STEP_ROWS = 1 << 18
"""The maximum number of events in one output table."""


class Piece(NamedTuple):
    """Events sorted by time; among equal times, those of a lower ``place`` come first."""

    place: int
    table: pa.Table
    times: Times


def merge_pieces(pieces: Iterable[tuple[int, Piece]]) -> Iterator[pa.Table]:
    """Merge pieces, which arrive sorted by their first times, and yield events in order.

    Events earlier than the start of the next piece are final and leave at once, so memory holds
    only the overlap of pieces.
    """
    waiting: list[Piece] = []
    rows = 0
    for begin, piece in pieces:
        if rows >= STEP_ROWS:
            ready, waiting = _split(waiting, begin)
            yield from _in_order(ready)
            rows = sum(len(other.times) for other in waiting)
        waiting.append(piece)
        rows += len(piece.times)
    yield from _in_order(waiting)


def _split(pieces: list[Piece], before: int) -> tuple[list[Piece], list[Piece]]:
    ready, left = [], []
    for piece in pieces:
        cut = int(np.searchsorted(piece.times, before, side="left"))
        if cut:
            ready.append(Piece(piece.place, piece.table.slice(0, cut), piece.times[:cut]))
        if cut < len(piece.times):
            left.append(Piece(piece.place, piece.table.slice(cut), piece.times[cut:]))
    return ready, left


def _in_order(pieces: list[Piece]) -> Iterator[pa.Table]:
    if not pieces:
        return
    # Pieces of one place are in order already, as they came.
    pieces = sorted(pieces, key=lambda piece: piece.place)
    table = pa.concat_tables([piece.table for piece in pieces])
    times = np.concatenate([piece.times for piece in pieces])
    if (times[1:] < times[:-1]).any():
        table = table.take(np.argsort(times, kind="stable"))
    for at in range(0, len(table), STEP_ROWS):
        yield table.slice(at, STEP_ROWS)
