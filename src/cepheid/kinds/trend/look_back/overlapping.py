"""Evaluate sliding windows together, for queries in prefix form; see ``kernels/lanes.py``.

Rows are sorted by partition once, and windows are ranges of them. With a partial equivalence (§4.3)
whose variables are all that a match binds, its values divide partitions further. A leading NOT bars
a row from beginning matches in the windows that hold the latest occurrence before it; this start is
found once, over all events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import lanes as kernel
from cepheid.kernels.near_places import WORD
from cepheid.kernels.prefix import EQUAL
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.barred_windows import bars_of, can_bar
from cepheid.kinds.trend.look_back.prefix_sums import (
    build_tables,
    has_prefix_form,
    is_chain,
    look_ups,
    stacked,
)
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.patterns.segments import share_windows, sort_by_key, take
from cepheid.plans.plan import WindowPlan
from cepheid.plans.template import Template

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.question import Question


WEIGHT_MIN, WEIGHT_MAX = 2.0**-300, 2.0**100
LANES_MAX = 32
VECTOR = 16
"""Loops over so many numbers, or a multiple, use vector instructions only."""

NUMBERS_MAX = 1 << 24
"""Numbers of results that are held at once."""

GROUPS_MAX = 256
"""Groups whose rows are ranked together; each of them looks through the places of all."""


class _Data(NamedTuple):
    """The input arrays of the kernel."""

    groups: NDArray[np.int64]
    ts: NDArray[np.int64]
    bits: NDArray[np.int64]
    place: NDArray[np.int32]
    upto: NDArray[np.int32]
    places: NDArray[np.int64]
    equal: NDArray[np.bool_]
    lookup_of: NDArray[np.int64]
    weights: NDArray[np.float64]
    weight_of: NDArray[np.int32]
    bars: NDArray[np.int64]


class _Parts(NamedTuple):
    """Rows in the order of partitions, each divided by the values of a partial equivalence."""

    key: NDArray[np.int64]
    ptr: NDArray[np.int64]
    rows: NDArray[np.int64]


def run_overlapping(
    question: Question, template: Template, window: WindowPlan, first: int, last: int
) -> list[Rows] | None:
    """Compute the rows of the windows [first, last); None if they must run one by one."""
    parts = question.weight_of.shape[1]
    if question.value_of.shape[1] or not _binds_listed(question, template):
        return None
    if not has_prefix_form(question, template) or not can_bar(question, template):
        return None
    if not _weights_fit(question.arrays.weights[: parts - 1]):
        return None
    bars = bars_of(question, template, window.slide)
    lanes = choose_lanes(window, parts, last - first)
    together = window.within + (lanes - 1) * window.slide, lanes * window.slide
    found, shifted = [], question.arrays.ts - first * window.slide
    shares = share_windows(
        shifted, *together, 0, -(-(last - first) // lanes), NUMBERS_MAX // (lanes * parts)
    )
    for low, high in shares:
        for group in range(low, high, GROUPS_MAX):
            upto = first + min(group + GROUPS_MAX, high) * lanes
            begin, end = first + group * lanes, min(upto, last)
            rows = _run(question, template, window, begin, end, lanes, bars)
            if rows is None:
                return None
            found.append(rows)
    return found


def choose_lanes(window: WindowPlan, parts: int, windows: int) -> int:
    """Choose how many windows run together, by the steps that an event takes."""

    def cost(lanes: int) -> float:
        groups = (window.within + (lanes - 1) * window.slide) / (lanes * window.slide)
        return groups * (1 + -(-lanes * parts // VECTOR))

    return min(range(1, max(min(LANES_MAX, windows), 1) + 1), key=cost)


def _binds_listed(question: Question, template: Template) -> bool:
    """Check that every match has a value of the partial equivalence, if there is one."""
    if not question.listed:
        return True
    bound = {state.variable for state in template.states}
    return len(question.listed) == 1 and bound <= question.listed[0]


def _weights_fit(weights: NDArray[Any]) -> bool:
    """Check whether values can be multiplied with any number of matches that a double holds."""
    size = np.abs(weights)
    return bool(((size == 0) | ((size >= WEIGHT_MIN) & (size <= WEIGHT_MAX))).all())


def _run(
    question: Question,
    template: Template,
    window: WindowPlan,
    first: int,
    last: int,
    lanes: int,
    bars: NDArray[np.int64],
) -> Rows | None:
    """Compute the rows of some windows, or None if doubles do not suffice."""
    parts = _parts(question, first * window.slide, (last - 1) * window.slide + window.within)
    ts = take(question.arrays.ts, parts.rows)
    place = first * window.slide, window.within + (lanes - 1) * window.slide, lanes * window.slide
    count = -(-(last - first) // lanes)
    groups = np.empty((0, 5), np.int64)
    groups = np.empty((kernel.find_groups(parts.ptr, ts, *place, count, groups), 5), np.int64)
    kernel.find_groups(parts.ptr, ts, *place, count, groups)
    # Partitions of one key follow each other; their groups add up.
    names = parts.key[groups[:, 0]] * count + groups[:, 1]
    slots = names
    if question.listed:
        slots, groups[:, 4] = np.unique(names, return_inverse=True)
    else:
        groups[:, 4] = np.arange(len(groups))
    numbers = np.zeros((len(slots), lanes, question.weight_of.shape[1]))
    _call(question, template, window, parts, ts, groups, first, bars, numbers)
    wide = np.zeros(numbers.shape, np.complex128)
    if not kernel.widen_results(numbers, wide):
        return None
    number = first + slots[:, None] % count * lanes + np.arange(lanes)
    some = np.nonzero((numbers[:, :, 0] > 0) & (number < last))
    none = np.zeros((len(some[0]), 0), np.int64)
    return Rows(slots[some[0]] // count, number[some], wide[some], none)


def _parts(question: Question, begin_us: int, end_us: int) -> _Parts:
    """Sort the rows of some time by partition, and by the value that their variables share."""
    arrays = question.arrays
    begin, end = np.searchsorted(arrays.ts, [begin_us, end_us])
    rows = np.arange(begin, end)
    if not question.listed:
        key = arrays.key[begin:end]
        order = sort_by_key(key)
        rows, key = (rows, key) if order is None else (rows[order], key[order])
        return _Parts(*_cut(key, np.zeros_like(key)), rows)
    code = question.codes[0]
    rows = rows[(arrays.bits[begin:end] & question.listed_bits[0] != 0) & (code[begin:end] >= 0)]
    order = sort_by_key(code[rows])
    rows = rows if order is None else rows[order]
    order = sort_by_key(arrays.key[rows])
    rows = rows if order is None else rows[order]
    return _Parts(*_cut(arrays.key[rows], code[rows]), rows)


def _cut(
    key: NDArray[np.int64], code: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find where keys or codes change; return the key and the first row of every part."""
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (code[1:] != code[:-1])
    starts = np.flatnonzero(new)
    return key[starts], np.append(starts, len(key)).astype(np.int64)


def _call(
    question: Question,
    template: Template,
    window: WindowPlan,
    parts: _Parts,
    ts: NDArray[np.int64],
    groups: NDArray[np.int64],
    first: int,
    bars: NDArray[np.int64],
    numbers: NDArray[np.float64],
) -> None:
    """Rank all rows, and add up the results of all groups."""
    rows, ptr = parts.rows, parts.ptr
    bits = take(question.arrays.bits, rows)
    lookups, pairs = look_ups(question, rows, ptr, bits)
    tables, indexes = build_tables(template, question.variables, pairs)
    tables = tables._replace(index_kind=np.array([lookups[n].kind for _, n in indexes], np.int64))
    none = np.zeros((0, len(rows)), np.int32)
    place = stacked([lookup.place for lookup in lookups], none)
    upto = stacked([lookup.upto for lookup in lookups], none)
    equal = np.array([lookup.kind == EQUAL for lookup in lookups], np.bool_)
    longest = int(np.diff(ptr).max(initial=0)) // WORD + 2
    words, before = np.empty(longest, np.uint64), np.empty(longest, np.int64)
    places = np.empty((len(lookups), len(parts.key)), np.int64)
    kernel.number_parts(ptr, place, upto, equal, words, before, places)
    data = _Data(
        groups, ts, bits, place, upto, places, equal,
        np.array([n for _, n in indexes], np.int64),
        take(question.arrays.weights, rows).astype(np.float64, copy=False), question.weight_of,
        take(bars, rows),
    )  # fmt: skip
    order = np.empty(len(rows), np.int64)
    widest = order_rows(ptr, ts, question.together, order)
    lanes, count = numbers.shape[1:]
    width = -(-lanes * count // VECTOR) * VECTOR
    wide_rows = int((groups[:, 3] - groups[:, 2]).max(initial=0))
    room = min(int(places.max(initial=0)), wide_rows) + 1
    states = len(template.states)
    kernel.run_lanes(
        tables, data, is_chain(tables, upto, bits), question.together,
        np.zeros(len(indexes) * room * width), room, np.zeros(states * width),
        np.zeros(widest * states * width), np.empty((len(lookups), wide_rows), np.int32),
        np.empty((len(lookups), wide_rows), np.int32), words, before, window.within, window.slide,
        first, lanes, width, numbers,
    )  # fmt: skip
