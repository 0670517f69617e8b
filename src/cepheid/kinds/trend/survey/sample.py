"""Draw matches of groups and windows (§17.2): counts and seeds in, matches out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import draw as kernel
from cepheid.kernels.prefix import FANOUT, LEVELS_MAX, room_of
from cepheid.kernels.ring import LIMIT, STEP
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.look_back.evaluate import open_prefix
from cepheid.kinds.trend.look_back.prefix_sums import has_prefix_form
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.survey.cells import Cells
from cepheid.kinds.trend.survey.graph import Walk, open_walk
from cepheid.patterns.segments import Segments
from cepheid.plans.template import Template

EVENTS_ROOM = 1 << 16
"""Events of drawn matches that have room before more is made."""
SHARE_MIN = 1e-20
"""The share of matches of rows that draws may come to: a billion others are below any rounding."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_OTHER = np.uint64(0xD1B54A32D192ED03)


class _Drawing(NamedTuple):
    """The arrays of the kernel; see ``kernels/draw.py``."""

    V: NDArray[Any]
    edge_slot: NDArray[np.int64]
    source: NDArray[np.int64]
    predicate: NDArray[np.int64]
    mantissa: NDArray[np.float64]
    power: NDArray[np.int32]
    was: NDArray[np.float64]
    was_power: NDArray[np.int32]
    starts: NDArray[np.int64]
    at: NDArray[np.int64]
    end_bound: NDArray[np.int64]
    ends: NDArray[Any]
    drawn_ptr: NDArray[np.int64]
    drawn: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    head: NDArray[np.int64]
    next: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ways: NDArray[np.int64]
    listed_ends: NDArray[np.float64]
    listed: NDArray[np.int64]
    listed_kind: NDArray[np.int64]
    shares: NDArray[np.float64]


def open_draws(
    question: Question, template: Template, segments: Segments
) -> tuple[Walk, NDArray[Any], NDArray[Any]]:
    """Open the graph of draws; return it, the counts of its rows, and those of each segment.

    In prefix form it has only rows that a draw may come to: of falling trends, a quarter.
    """
    if template.guards or not has_prefix_form(question, template):
        walk = open_walk(question, template, segments)
        return walk, *walk.count_ending()
    evaluation = open_prefix(question, template, segments)
    counts, totals = evaluation.count_ending()
    small = totals.real * SHARE_MIN
    negligible = np.where(
        small < 1.0, small * LIMIT + 1j * (totals.imag - STEP), small + 1j * totals.imag
    )
    kept = evaluation.count_going_on(counts, negligible).real.any(axis=1)
    ends = np.append(0, np.cumsum(kept))
    fewer = segments._replace(
        ptr=ends[segments.ptr], rows=segments.rows[kept], bits=segments.bits[kept],
        blocked=segments.blocked[kept],
    )  # fmt: skip
    return open_walk(question, template, fewer), counts[kept][:, :, None], totals


def draw_matches(
    walk: Walk, counts: NDArray[Any], cells: Cells, number: int
) -> tuple[Found, NDArray[np.int64]]:
    """Draw matches of every cell; return them, cell after cell, with the cell of each."""
    seeds = _seeds(cells.seeds, number)
    owner = _choose_segments(cells, seeds, number)
    # Draws of one segment walk together.
    drawn = np.argsort(owner, kind="stable")
    ptr = np.searchsorted(owner[drawn], np.arange(len(walk.segments.key) + 1))
    longest = walk.segments.longest
    slots, total = len(walk.slots.source), len(owner)
    size, above = slots * room_of(longest), 0
    while FANOUT ** (above + 1) < longest + 1:
        above += 1
    # What a row may follow: for each edge, all rows at most, or two ranges of a tree.
    listed = len(walk.graph.source) * (longest + 4 * FANOUT * (LEVELS_MAX + 1))
    room = _Drawing(
        counts, *walk.slots,
        np.zeros(size), np.zeros(size, np.int32),
        np.empty((slots, longest, above)), np.empty((slots, longest, above), np.int32),
        np.zeros(LEVELS_MAX + 2, np.int64), np.zeros((slots, longest), np.int64),
        np.zeros(walk.states, np.int64), np.zeros(longest + 1, np.complex128),
        ptr, drawn, seeds, np.zeros(longest * walk.states, np.int64), np.zeros(total, np.int64),
        np.zeros(total, np.int64), np.zeros((len(walk.graph.source), 4), np.int64),
        np.zeros(listed), np.zeros(listed, np.int64), np.zeros(listed, np.int64),
        np.zeros(total),
    )  # fmt: skip
    draw, place = _run(walk, room, max(EVENTS_ROOM, total))
    ends = np.append(0, np.cumsum(room.lengths))
    row, variable = np.empty(len(draw), np.int64), np.empty(len(draw), np.int8)
    kernel.order_events(
        draw, place, walk.states, walk.graph.variable, ends[1:].copy(), row, variable
    )
    found = Found(owner, row[ends[1:] - 1], ends, walk.segments.rows[row], variable)
    return found, np.repeat(np.arange(len(cells)), number)


def _run(walk: Walk, room: _Drawing, size: int) -> list[NDArray[Any]]:
    """Run the kernel, with as much room as the draws need; return the draw and place of events."""
    cursor = np.array([0, -1, 0, 0], np.int64)
    parts: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []
    done = False
    while not done:
        draws, places = np.empty(size, np.int32), np.empty(size, np.int64)
        cursor[kernel.COUNT] = 0
        done = kernel.draw_matches(walk.graph, walk.data, room, cursor, draws, places)
        count = cursor[kernel.COUNT]
        parts.append((draws[:count], places[:count]))
        size *= 2
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of seeds, as SplitMix64 does."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return np.asarray(words ^ (words >> np.uint64(31)), np.uint64)


def _seeds(of_cells: NDArray[np.uint64], number: int) -> NDArray[np.uint64]:
    """Compute the seed of every draw of every cell."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, number + 1, dtype=np.uint64) * _GAMMA
        return _mixed((of_cells[:, None] + steps[None, :]).ravel())


def _choose_segments(cells: Cells, seeds: NDArray[np.uint64], number: int) -> NDArray[np.int64]:
    """Choose for every draw the partition of its cell, in proportion to the counts."""
    with np.errstate(over="ignore"):
        chance = (_mixed(seeds ^ _OTHER) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    owner = np.repeat(cells.segments[cells.ptr[:-1]], number)
    for cell in np.flatnonzero(np.diff(cells.ptr) > 1).tolist():
        mine = slice(cell * number, (cell + 1) * number)
        ends = np.cumsum(cells.weights(cell))
        place = np.searchsorted(ends, chance[mine] * ends[-1], side="right")
        segments = cells.segments[cells.ptr[cell] : cells.ptr[cell + 1]]
        owner[mine] = segments[np.minimum(place, len(segments) - 1)]
    return owner
