"""Group events into segments: the events of one partition in one window, stored contiguously.

A match lies within one segment, so segments are evaluated independently. Overlapping windows repeat
events; at most EXPANDED_ROWS rows are expanded at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.columns import is_counting
from cepheid.kernels.distinct import distinct
from cepheid.kernels.segments import order_by_code, scatter_rows, search_slices

EXPANDED_ROWS = 1 << 21
DIVIDED_ROWS = 1 << 10
"""The windows of fewer times are found by a division each."""


class Segments(NamedTuple):
    """Segments: their keys and windows, and the rows of each, one segment after the other.

    ``bits`` are the variables that a row may bind in its segment, ``blocked`` those that it only
    denies to others, ``chosen`` the attributes for which a segment stands for one value (§4.3), and
    ``base`` the number of the segment that it is a part of.
    """

    key: NDArray[np.int64]
    window: NDArray[np.int64]
    ptr: NDArray[np.int64]
    rows: NDArray[np.int64]
    bits: NDArray[np.int64]
    blocked: NDArray[np.int64]
    chosen: NDArray[np.int64]
    base: NDArray[np.int64]

    @property
    def longest(self) -> int:
        """Compute the number of rows of the longest segment."""
        return int(np.diff(self.ptr).max()) if len(self.key) else 0

    def take(self, wanted: NDArray[np.int64]) -> Segments:
        """Select some of the segments."""
        lengths = np.diff(self.ptr)[wanted]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.repeat(self.ptr[wanted] - ptr[:-1], lengths) + np.arange(ptr[-1])
        return Segments(
            self.key[wanted], self.window[wanted], ptr, self.rows[at], self.bits[at],
            self.blocked[at], self.chosen[wanted], self.base[wanted],
        )  # fmt: skip


def take(array: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Select rows of an array, without a copy if they are all rows in order.

    Attributes are contiguous: kernels are compiled for that layout, and indexing would change it.
    """
    count = len(rows)
    whole = count == array.shape[-1] and is_counting(rows)
    return array if whole else np.take(array, rows, axis=-1)


def gather_segments(
    key: NDArray[np.int64],
    window: NDArray[np.int64],
    rows: NDArray[np.int64],
    bits: NDArray[np.int64],
) -> Segments:
    """Group rows by key and window; rows keep their order."""
    falls = bool((key[1:] < key[:-1]).any())
    if falls or ((key[1:] == key[:-1]) & (window[1:] < window[:-1])).any():
        # The sort is stable, so rows stay in time order, and with them windows that follow it.
        order = None if (window[1:] < window[:-1]).any() else _by_key(key)
        order = np.lexsort((window, key)) if order is None else order
        key, window, rows = key[order], window[order], rows[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (window[1:] != window[:-1])
    starts = np.flatnonzero(new)
    ptr = np.append(starts, len(rows)).astype(np.int64)
    none = np.zeros(len(rows), np.int64)
    chosen, base = np.zeros(len(starts), np.int64), np.arange(len(starts))
    return Segments(key[starts], window[starts], ptr, rows, bits[rows], none, chosen, base)


def sort_by_key(key: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Order rows by key, stable; None if they are in order."""
    if not (key[1:] < key[:-1]).any():
        return None
    order = _by_key(key)
    return np.argsort(key, kind="stable") if order is None else order


def _by_key(key: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Order rows by key with a counting sort; None if keys are no small integers."""
    least, most = int(key.min()), int(key.max())
    if least < 0 or most > len(key):
        return None
    ends, place = np.zeros(most + 2, np.int64), np.empty(len(key), np.int64)
    order = np.empty(len(key), np.int64)
    order_by_code(key, ends, place)
    scatter_rows(place, order)
    return order


def tumbling_segments(
    key: NDArray[np.int64], ts: NDArray[np.int64], bits: NDArray[np.int64], width: int
) -> Segments:
    """Build one segment for each key and tumbling window; width 0 is one window for all."""
    if len(key) and not width and (key[0] == key).all():
        # The rows are contiguous already; sorting would cost more than the rest.
        return whole_segment(bits)._replace(key=key[:1])
    window = _tumbling(ts, width) if width else np.zeros(len(ts), np.int64)
    return gather_segments(key, window, np.arange(len(key)), bits)


def _tumbling(ts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Compute the start of the tumbling window of each time."""
    if len(ts) < DIVIDED_ROWS or (ts[1:] < ts[:-1]).any():
        return ts // width * width
    first, last = int(ts[0]) // width, int(ts[-1]) // width
    if last - first > len(ts) // 8:
        return ts // width * width
    # Few windows of sorted times are found by their edges, which is quicker than a division each.
    edges = np.arange(first, last + 2) * width
    return np.repeat(edges[:-1], np.diff(np.searchsorted(ts, edges)))


def whole_segment(bits: NDArray[np.int64]) -> Segments:
    """Build one segment of all rows."""
    none = np.zeros(len(bits), np.int64)
    ptr = np.array([0, len(bits)], np.int64)
    return Segments(none[:1], none[:1], ptr, np.arange(len(bits)), bits, none, none[:1], none[:1])


def sliding_segments(
    key: NDArray[np.int64],
    ts: NDArray[np.int64],
    bits: NDArray[np.int64],
    within: int,
    slide: int,
    first: int,
    last: int,
) -> Iterator[Segments]:
    """Build the segments of the windows with numbers [first, last), a share of them at a time."""
    for begin, end in share_windows(ts, within, slide, first, last):
        yield window_segments(key, ts, bits, within, slide, begin, end)


def share_windows(
    ts: NDArray[np.int64],
    within: int,
    slide: int,
    first: int,
    last: int,
    rows_max: int = EXPANDED_ROWS,
) -> Iterator[tuple[int, int]]:
    """Split the windows [first, last) into shares that hold events; time without events is free.

    Each share has at most ``rows_max`` rows, or is one window.
    """
    while first < last:
        at = int(np.searchsorted(ts, first * slide))
        times = ts[at : at + rows_max]
        if not len(times):
            return
        low = np.maximum((times - within) // slide + 1, first)
        high = np.minimum(times // slide + 1, last)
        first = int(low[0])
        if first >= last:
            return
        # An empty window ends the share, as does one row too many.
        gaps = np.flatnonzero(low[1:] > high[:-1])
        many = np.flatnonzero(np.cumsum(high - low) > rows_max)
        ends = [int(high[gaps[0] if len(gaps) else -1])]
        ends += [max(int(low[many[0]]), first + 1)] if len(many) else []
        if len(times) == rows_max:
            ends.append(max(int(low[-1]), first + 1))
        end = min(ends)
        yield first, end
        first = end


def window_segments(
    key: NDArray[np.int64],
    ts: NDArray[np.int64],
    bits: NDArray[np.int64],
    within: int,
    slide: int,
    first: int,
    last: int,
) -> Segments:
    """Build the segments of the windows with numbers [first, last), all at once."""
    begin, end = np.searchsorted(ts, [first * slide, (last - 1) * slide + within])
    if end - begin < len(ts):
        part = slice(begin, end)
        found = window_segments(key[part], ts[part], bits[part], within, slide, first, last)
        return found._replace(rows=found.rows + begin)
    if len(key) and (key[0] == key).all():
        return _windows_of_one_key(int(key[0]), ts, bits, within, slide, first, last)
    low = np.maximum((ts - within) // slide + 1, first)
    high = np.minimum(ts // slide + 1, last)
    counts = np.maximum(high - low, 0)
    rows = np.repeat(np.arange(len(ts)), counts)
    ends = np.cumsum(counts)
    number = np.arange(len(rows)) - np.repeat(ends - counts, counts) + low[rows]
    return gather_segments(key[rows], number, rows, bits)


def _windows_of_one_key(
    key: int,
    ts: NDArray[np.int64],
    bits: NDArray[np.int64],
    within: int,
    slide: int,
    first: int,
    last: int,
) -> Segments:
    """Build windows as slices of rows in time order."""
    window = np.arange(first, last)
    begins = np.searchsorted(ts, window * slide)
    lengths = np.searchsorted(ts, window * slide + within) - begins
    some = lengths > 0
    window, begins, lengths = window[some], begins[some], lengths[some]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(begins - ptr[:-1], lengths) + np.arange(ptr[-1])
    none = np.zeros(len(rows), np.int64)
    count = len(window)
    return Segments(
        np.full(count, key), window, ptr, rows, bits[rows], none, none[:count], np.arange(count)
    )


class DistinctWindows(NamedTuple):
    """Windows that differ from the previous one: their numbers, and their events [begin, end).

    ``repeats`` windows from this number on hold the same events.
    """

    number: NDArray[np.int64]
    repeats: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def take(self, wanted: Any) -> DistinctWindows:
        """Select some of the windows."""
        return DistinctWindows(*(column[wanted] for column in self))


def distinct_windows(ts: NDArray[np.int64], within: int, slide: int) -> DistinctWindows:
    """Compute the distinct windows that hold an event; events are in time order.

    Examples
    --------
    >>> found = distinct_windows(np.array([0, 10]), within=15, slide=1)
    >>> found.number.tolist(), found.repeats.tolist()
    ([-14, -4, 1], [10, 5, 10])
    >>> found.begin.tolist(), found.end.tolist()
    ([0, 0, 1], [1, 2, 2])
    """
    edges = distinct(np.concatenate([(ts - within) // slide + 1, ts // slide + 1]))
    number, repeats = edges[:-1], np.diff(edges)
    begin, end = np.searchsorted(ts, number * slide), np.searchsorted(ts, number * slide + within)
    some = begin < end
    return DistinctWindows(number[some], repeats[some], begin[some], end[some])


def rows_of_windows(windows: DistinctWindows) -> NDArray[np.int64]:
    """Concatenate the row numbers of windows."""
    lengths = windows.end - windows.begin
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(windows.begin - offsets, lengths) + np.arange(int(lengths.sum()))


def repeated_rows(
    first: NDArray[np.int64], sizes: NDArray[np.int64], laps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Repeat the rows of groups, with the number of the repetition.

    Examples
    --------
    >>> rows, lap = repeated_rows(np.array([0, 2]), np.array([2, 1]), np.array([2, 3]))
    >>> rows.tolist(), lap.tolist()
    ([0, 1, 0, 1, 2, 2, 2], [0, 0, 1, 1, 0, 1, 2])
    """
    totals = sizes * laps
    # There can be so many rows that each array of them costs much memory.
    rows = np.arange(int(totals.sum()))
    rows -= np.repeat(np.cumsum(totals) - totals, totals)
    group = np.repeat(sizes, totals)
    lap = rows // group
    group *= lap
    rows -= group
    rows += np.repeat(first, totals)
    return rows, lap


def distinct_segments(
    key: NDArray[np.int64], bits: NDArray[np.int64], windows: DistinctWindows
) -> Segments:
    """Build the segments of windows, numbered as the windows."""
    rows = rows_of_windows(windows)
    number = np.repeat(windows.number, windows.end - windows.begin)
    return gather_segments(key[rows], number, rows, bits)


def trailing_segments(
    key: NDArray[np.int64],
    ts: NDArray[np.int64],
    bits: NDArray[np.int64],
    asked: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], Segments]]:
    """Build the segments (low, high] of some keys with their numbers, a share of them at a time.

    ``key`` and ``ts`` are sorted by key, then time. Empty segments are skipped.
    """
    starts = np.searchsorted(key, asked, side="left")
    stops = np.searchsorted(key, asked, side="right")
    begins = search_within(ts, starts, stops, low)
    ends = search_within(ts, starts, stops, high)
    counts = ends - begins
    first = 0
    while first < len(asked):
        upto = first + max(int(np.searchsorted(np.cumsum(counts[first:]), EXPANDED_ROWS)), 1)
        mine = np.arange(first, min(upto, len(asked)))
        mine = mine[counts[mine] > 0]
        lengths = counts[mine]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.repeat(begins[mine] - ptr[:-1], lengths) + np.arange(ptr[-1])
        none = np.zeros(len(rows), np.int64)
        chosen = np.zeros(len(mine), np.int64)
        base = np.arange(len(mine))
        segments = Segments(asked[mine], high[mine], ptr, rows, bits[rows], none, chosen, base)
        if len(mine):
            yield mine, segments
        first = upto


def search_within(
    ts: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Find the first position in each slice with a time above a bound."""
    found = np.empty(len(starts), np.int64)
    search_slices(ts, starts, stops, bounds, found)
    return found
