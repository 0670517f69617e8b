"""Find the matches with the largest values (§17.3, §17.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kernels import best as kernel
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.program.reading import fill_weights
from cepheid.kinds.trend.survey.graph import Walk
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.marks import variable_of
from cepheid.plans.survey import MatchValue, Survey

SHARE = 8
"""The lists of the best may take as many times the limit of a step."""


class _Room(NamedTuple):
    """The arrays of the kernel; see ``kernels/best.py``."""

    edge_slot: NDArray[np.int64]
    source: NDArray[np.int64]
    predicate: NDArray[np.int64]
    weights: NDArray[np.float64]
    begins: NDArray[np.float64]
    ends: NDArray[np.float64]
    written: NDArray[np.int64]
    filled: NDArray[np.int64]
    value: NDArray[np.float64]
    link: NDArray[np.int64]
    tree: NDArray[np.int64]
    tree_value: NDArray[np.float64]
    tree_count: NDArray[np.int64]
    end_bound: NDArray[np.int64]
    values: NDArray[np.float64]
    references: NDArray[np.int64]
    best_value: NDArray[np.float64]
    best: NDArray[np.int64]
    found: NDArray[np.int64]


class Best(NamedTuple):
    """The best matches of every segment, one segment after the other."""

    segment: NDArray[np.int64]
    value: NDArray[np.float64]
    reference: NDArray[np.int64]
    last: NDArray[np.int64]
    link: NDArray[np.int64]
    most: int


def find_best(walk: Walk, survey: Survey) -> Best:
    """Find the best matches of every segment.

    Raises
    ------
    DataError
        E519 if the lists of the best take too much memory.
    """
    segments, most, states = walk.segments, survey.number, walk.states
    rows, longest, slots = len(segments.rows), segments.longest, len(walk.slots.source)
    entries = (rows * states + 2 * slots * longest) * most
    if 16 * entries > SHARE * current().state:
        too_much_state("places in lists of the best", SHARE * current().state // 16, verb="keeps")
    assert survey.value is not None, "the value by which matches are ranked"
    numbers = [survey.written.index(variable_of(name)) for name in walk.question.variables]
    room = _Room(
        *walk.slots, *_weights(walk, survey.value),
        np.array(numbers, np.int64)[walk.graph.variable],
        np.zeros(rows * states, np.int64), np.zeros(rows * states * most),
        np.zeros(rows * states * most, np.int64), np.zeros((slots, 2 * longest, most), np.int64),
        np.zeros((slots, 2 * longest, most)),
        np.zeros((slots, 2 * longest), np.int64), np.zeros(states, np.int64), np.zeros(most),
        np.zeros(most, np.int64), np.zeros((len(segments.key), most)),
        np.zeros((len(segments.key), most), np.int64), np.zeros(len(segments.key), np.int64),
    )  # fmt: skip
    kernel.find_best(walk.graph, walk.data, room)
    kept = np.arange(most)[None, :] < room.found[:, None]
    reference = room.best[kept]
    last = segments.rows[reference // most // states]
    return Best(np.nonzero(kept)[0], room.best_value[kept], reference, last, room.link, most)


def _weights(
    walk: Walk, value: MatchValue
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Compute what each row adds to a value: as each variable, as the first and as the last one."""
    rows = walk.segments.rows
    names = [variable_of(name) for name in walk.question.variables]
    weights = np.zeros((len(names), len(rows)))
    begins, ends = np.zeros(len(rows)), np.zeros(len(rows))
    if value.what == "length":
        weights[:] = 1
    elif value.what == "duration":
        # Relative to the first event, so that doubles hold them.
        times = walk.question.arrays.ts
        since = (times - times.min())[rows].astype(np.float64) if len(rows) else begins
        begins, ends = -since, since
    else:
        mine = [n for n, name in enumerate(names) if name == value.variable]
        weights[mine] = _added(walk.question.columns, value)[rows]
    return weights, begins, ends


def _added(columns: Columns, value: MatchValue) -> NDArray[np.float64]:
    """Read what each event adds to a count or a sum."""
    added = np.empty(len(columns.batch))
    what = "sum" if value.what == "sum" else "bindings"
    fill_weights(added, columns, what, value.attribute)
    return added


def read_best(walk: Walk, best: Best, chosen: NDArray[np.int64]) -> Found:
    """Read the events of some of the best matches."""
    references = best.reference[chosen]
    lengths = np.zeros(len(chosen), np.int64)
    kernel.measure_matches(best.link, references, lengths)
    ends = np.append(0, np.cumsum(lengths))
    row, state = np.zeros((2, int(ends[-1])), np.int64)
    kernel.read_matches(best.link, references, walk.states, best.most, ends[1:], row, state)
    variables: Any = walk.graph.variable[state].astype(np.int8)
    return Found(best.segment[chosen], row[ends[1:] - 1], ends, walk.segments.rows[row], variables)
