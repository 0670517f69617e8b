"""Evaluate sliding windows together, for queries in prefix form; see ``kernels/lanes.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import lanes as kernel
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.prefix_sums import has_prefix_form, is_chain, prepare
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.patterns.segments import Segments, sliding_segments
from cepheid.plans.plan import WindowPlan
from cepheid.plans.template import Template

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.question import Question


WEIGHT_MIN, WEIGHT_MAX = 2.0**-300, 2.0**100


class _Data(NamedTuple):
    """The input arrays of the kernel."""

    segment_ptr: NDArray[np.int64]
    window: NDArray[np.int64]
    order: NDArray[np.int64]
    ts: NDArray[np.int64]
    bits: NDArray[np.int64]
    place: NDArray[np.int32]
    upto: NDArray[np.int32]
    weights: NDArray[np.float64]
    weight_of: NDArray[np.int32]


def run_overlapping(
    question: Question, template: Template, window: WindowPlan, first: int, last: int
) -> list[Rows] | None:
    """Compute the rows of the windows [first, last); None if they must run one by one."""
    parts = question.weight_of.shape[1]
    if question.value_of.shape[1] or question.listed or template.guards:
        return None
    if not has_prefix_form(question, template):
        return None
    if not _weights_fit(question.arrays.weights[: parts - 1]):
        return None
    arrays, slide = question.arrays, window.slide
    # Consecutive windows are one longer window with a longer slide.
    together = (window.within + (kernel.LANES - 1) * slide, kernel.LANES * slide)
    count = -(-(last - first) // kernel.LANES)
    shifted = arrays.ts - first * slide
    found = []
    for segments in sliding_segments(arrays.key, shifted, arrays.bits, *together, 0, count):
        numbers = _run(question, template, segments, window, first)
        wide = np.zeros(numbers.shape, np.complex128)
        if not kernel.widen_results(numbers, wide):
            return None
        number = first + segments.window[:, None] * kernel.LANES + np.arange(kernel.LANES)
        some = np.nonzero((numbers[:, :, 0] > 0) & (number < last))
        none = np.zeros((len(some[0]), 0), np.int64)
        found.append(Rows(segments.key[some[0]], number[some], wide[some], none))
    return found


def _weights_fit(weights: NDArray[Any]) -> bool:
    """Check whether values can be multiplied with any number of matches that a double holds."""
    size = np.abs(weights)
    return bool(((size == 0) | ((size >= WEIGHT_MIN) & (size <= WEIGHT_MAX))).all())


def _run(
    question: Question, template: Template, segments: Segments, window: WindowPlan, first: int
) -> NDArray[np.float64]:
    """Compute the results of all windows of all segments."""
    rows, bits, parts = segments.rows, segments.bits, question.weight_of.shape[1]
    tables, place, upto = prepare(question, template, rows, segments.ptr, bits)
    data = _Data(
        segments.ptr, first + segments.window * kernel.LANES, np.empty(len(rows), np.int64),
        question.arrays.ts[rows], bits, place, upto,
        np.take(question.arrays.weights, rows, axis=1).astype(np.float64, copy=False),
        question.weight_of,
    )  # fmt: skip
    widest = order_rows(segments.ptr, data.ts, question.together, data.order)
    states, indexes, room = len(template.states), len(tables.index_kind), segments.longest + 1
    width = parts * kernel.LANES
    numbers = np.zeros((len(segments.key), kernel.LANES, parts))
    kernel.run_lanes(
        tables, data, parts == 1 and is_chain(tables, upto, bits),
        np.zeros(indexes * room * width), room, np.zeros(states * width), np.zeros(width),
        np.zeros((widest, states, width)), window.within, window.slide, kernel.LANES, numbers,
    )  # fmt: skip
    return numbers
