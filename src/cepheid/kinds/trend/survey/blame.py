"""Count the matches through each event (§17.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.blame import add_products, count_through
from cepheid.kinds.trend.look_back.evaluate import open_prefix
from cepheid.kinds.trend.look_back.prefix_sums import has_prefix_form
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.survey.graph import Walk, open_walk
from cepheid.patterns.segments import Segments
from cepheid.plans.template import Template

NOTHING = np.zeros(0, np.complex128)
"""No number of matches is negligible."""


class _Room(NamedTuple):
    """The arrays of the kernel; see ``kernels/blame.py``."""

    V: NDArray[Any]
    edge_slot: NDArray[np.int64]
    source: NDArray[np.int64]
    predicate: NDArray[np.int64]
    tree: NDArray[Any]
    end_bound: NDArray[np.int64]
    back: NDArray[Any]
    through: NDArray[Any]


def count_blame(
    question: Question, template: Template, segments: Segments
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count the matches through each row, and those of each segment, as wide numbers."""
    if has_prefix_form(question, template):
        evaluation = open_prefix(question, template, segments)
        counts, totals = evaluation.count_ending()
        through = np.zeros(len(counts), np.complex128)
        add_products(counts, evaluation.count_going_on(counts, NOTHING), through)
        return through, totals
    walk = open_walk(question, template, segments)
    counts, totals = walk.count_ending()
    return _blame_rows(walk, counts), totals


def _blame_rows(walk: Walk, counts: NDArray[Any]) -> NDArray[Any]:
    """Walk backwards through the graph."""
    rows, longest = len(walk.segments.rows), walk.segments.longest
    room = _Room(
        counts, *walk.slots, np.zeros((len(walk.slots.source), 2 * longest), np.complex128),
        np.zeros(walk.states, np.int64), np.zeros((rows, walk.states), np.complex128),
        np.zeros(rows, np.complex128),
    )  # fmt: skip
    count_through(walk.graph, walk.data, room)
    return room.through
