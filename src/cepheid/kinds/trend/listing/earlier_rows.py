"""Enumerate matches in narrow windows, with lists of earlier rows (``kernels/earlier_rows.py``).

What rows of matches tell about events is written in the same pass, instead of being looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import gather
from cepheid.arrays.pool import empty
from cepheid.kernels import earlier_rows as kernel
from cepheid.kernels.enumerate import BINDINGS, COUNT, DONE, FULL, TRIGGER
from cepheid.kinds.trend.listing.found import Found, Told

if TYPE_CHECKING:
    from cepheid.kinds.trend.listing.enumerate import Lister

BINDINGS_ROOM = 1 << 16
"""Bindings of one batch, unless a single match has more; what is written stays in the cache."""
LISTS_MAX = 1 << 20
"""Rows in the lists that one trigger can need; more are looked up again for each match."""


class _Telling(NamedTuple):
    """What is told, and room for it; see ``kernels/earlier_rows.py``."""

    words: NDArray[np.int64]
    letters: NDArray[np.uint8]
    length: int
    path: NDArray[np.int64]
    bound: NDArray[np.int8]
    spelled: NDArray[np.uint8]
    out_segment: NDArray[np.int64]
    out_last: NDArray[np.int64]
    out_ptr: NDArray[np.int64]
    out: NDArray[np.int64]
    out_variable: NDArray[np.int8]
    out_spelled: NDArray[np.uint8]

    def renewed(self, count: int, room: int) -> _Telling:
        """Allocate what is filled anew: matches keep it, so that nothing is copied."""
        ptr = empty(count + 1)
        ptr[0] = 0
        return self._replace(
            out_segment=empty(count), out_last=empty(count), out_ptr=ptr,
            out=empty(len(self.path) * room).reshape(-1, room), out_variable=empty(room, np.int8),
            out_spelled=empty(room * self.length + kernel.SLACK, np.uint8),
        )  # fmt: skip


def room_of_lists(lister: Lister) -> int:
    """Compute the most rows that the lists of one trigger can have, from those in its window."""
    return _widest(lister) ** 2 * len(lister.graph.source)


def _widest(lister: Lister) -> int:
    """Count the rows of the widest window: no match has more events."""
    return int((np.arange(len(lister.order)) - lister.arrays.bound).max(initial=0)) + 1


def list_by_earlier_rows(
    lister: Lister, count: int, trigger: int, room_of_limits: tuple[NDArray[Any], ...]
) -> Iterator[Found]:
    """Enumerate the matches from a trigger on, in their usual order, so many in a batch."""
    names, telling = _prepare(lister)
    edges, longest, need = len(lister.graph.source), _widest(lister), room_of_lists(lister)
    everything = int((np.arange(len(lister.order)) - lister.arrays.bound + 1).sum()) * edges
    # To drop all lists takes as long as there are rows.
    kept = np.empty(min(everything, max(2 * LISTS_MAX, 4 * len(lister.order))) + need, np.int32)
    kept_ptr = np.zeros((len(lister.order), edges, 2), np.int32)
    room = max(BINDINGS_ROOM, longest) + kernel.SLACK
    cursor = np.zeros(5, np.int64)
    cursor[TRIGGER] = trigger
    frames = np.zeros((longest + 1, kernel.FRAME), np.int64)
    status = FULL
    while status != DONE:
        telling = telling.renewed(count, room)
        status = kernel.list_by_earlier_rows(
            lister.graph, lister.data, lister.arrays, lister.pushed, telling, need, cursor, frames,
            *room_of_limits, kept, kept_ptr,
        )  # fmt: skip
        if cursor[COUNT]:
            yield _found(names, telling, int(cursor[COUNT]), int(cursor[BINDINGS]))
        cursor[COUNT] = cursor[BINDINGS] = 0


def _prepare(lister: Lister) -> tuple[list[str], _Telling]:
    """Collect what is told about the rows of segments, the row of the input first."""
    rows, told, longest = lister.segments.rows, lister.told, _widest(lister)
    names = list(told.words)
    words = np.empty((len(rows), 1 + len(names)), np.int64)
    words[:, 0] = rows
    for place, name in enumerate(names):
        words[:, 1 + place] = gather(told.words[name], rows)
    length = told.letters.shape[1]
    letters = np.append(told.letters.ravel(), np.zeros(kernel.SLACK, np.uint8))
    none, byte = np.zeros(0, np.int64), np.zeros(0, np.int8)
    width = longest + kernel.SLACK
    return names, _Telling(
        words, letters, length, np.zeros((1 + len(names), width), np.int64),
        np.zeros(width, np.int8), np.zeros(longest * length + kernel.SLACK, np.uint8),
        none, none, none, none[None], byte, byte.view(np.uint8),
    )  # fmt: skip


def _found(names: list[str], telling: _Telling, matches: int, bindings: int) -> Found:
    """Name what the kernel has written."""
    columns = telling.out[:, :bindings]
    letters = telling.out_spelled[: bindings * telling.length]
    told = Told(dict(zip(names, columns[1:], strict=True)), letters)
    return Found(
        telling.out_segment[:matches], telling.out_last[:matches], telling.out_ptr[: matches + 1],
        columns[0], telling.out_variable[:bindings], None, told,
    )  # fmt: skip
