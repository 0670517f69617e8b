"""The graph of segments, ready to be walked: its counts, and how rows find those before them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import graph as kernel
from cepheid.kinds.trend.look_back.evaluate import Evaluation
from cepheid.kinds.trend.look_back.graph import GraphTables
from cepheid.kinds.trend.look_back.question import Question
from cepheid.patterns.segments import Segments
from cepheid.plans.template import Template


class Slots(NamedTuple):
    """The lookups of a graph; see ``kernels/lookups.py``."""

    edge_slot: NDArray[np.int64]
    source: NDArray[np.int64]
    predicate: NDArray[np.int64]


class Walk(NamedTuple):
    """Segments and their graph.

    Attributes
    ----------
    graph, data
        The tables that kernels take.
    slots
        The lookups.
    """

    question: Question
    segments: Segments
    evaluation: Evaluation
    graph: GraphTables
    data: Any
    slots: Slots

    @property
    def states(self) -> int:
        """Count the states of the template."""
        return len(self.graph.variable)

    def count_ending(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Count the matches that end with each row in each state, and those of each segment."""
        return self.evaluation.count_ending(self.data)


def open_walk(question: Question, template: Template, segments: Segments) -> Walk:
    """Build the graph of segments."""
    evaluation = Evaluation(question, segments, template, [1] * len(template.states))
    graph, data = evaluation.tables, evaluation.counted_rows()
    return Walk(question, segments, evaluation, graph, data, slots_of(graph))


def slots_of(graph: GraphTables) -> Slots:
    """Choose a lookup for every edge.

    Rows that an edge without a predicate leaves are a range of places in the segment; those that
    one predicate leaves are a range of ranks. Rows of other edges are tested one by one.
    """
    known: dict[tuple[int, int], int] = {}
    chosen = np.full(len(graph.source), -1, np.int64)
    for edge, (source, mode, index) in enumerate(
        zip(graph.source.tolist(), graph.mode.tolist(), graph.edge_index.tolist(), strict=True)
    ):
        if source < 0 or mode not in (kernel.TOTAL, kernel.INDEX):
            continue
        predicate = -1 if mode == kernel.TOTAL else int(graph.index_predicate[index])
        if predicate >= 0 and graph.index_guarded[index]:
            continue
        chosen[edge] = known.setdefault((source, predicate), len(known))
    pairs = np.array(list(known), np.int64).reshape(-1, 2)
    return Slots(chosen, pairs[:, 0].copy(), pairs[:, 1].copy())
