"""Find the edges with two conditions that divide and conquer evaluates (``kernels/planes.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import graph as kernel
from cepheid.kernels.planes import run_planes

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.graph import GraphTables
    from cepheid.kinds.trend.look_back.relations import Ranks
    from cepheid.patterns.segments import Segments

LEAF_ROWS = 64
"""Rows that are tested one by one."""
PAIR_NS, LEVEL_NS = 8.0, 200.0
"""The time to test a pair of rows, and to join a row on one level (measured, one machine)."""
NO_VALUE = np.iinfo(np.int64).max


class Planes(NamedTuple):
    """The edges: their states, the one-sided predicate, and the other one."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    swept: NDArray[np.int64]
    ranged: NDArray[np.int64]
    suffix: NDArray[np.bool_]


class JoinRoom(NamedTuple):
    """The buffers of joins; see ``kernels/planes.py``."""

    cuts: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    by: NDArray[np.int64]
    place: NDArray[np.int64]
    ranks: NDArray[np.int64]
    entering: NDArray[np.int64]
    asking: NDArray[np.int64]
    keys: NDArray[np.int64]
    packed: NDArray[np.uint64]
    room: NDArray[np.uint64]
    tree: NDArray[Any]
    least: NDArray[np.int64]


def run_any_match(
    graph: GraphTables, ranks: Ranks, segments: Segments, data: Any, room: Any, *last: Any
) -> None:
    """Run skip-till-any-match: by joins of halves where two conditions make that faster."""
    found = find_planes(graph, ranks, segments.ptr)
    if found is None:
        kernel.run_segments(graph, data, room, *last)
        return
    joins = open_room(segments.longest, room.V, room.M)
    run_planes(found[0], data, room, found[1], joins, LEAF_ROWS, *last)


def find_planes(
    graph: GraphTables, ranks: Ranks, segment_ptr: NDArray[np.int64]
) -> tuple[GraphTables, Planes] | None:
    """Choose the edges to join, where that takes less time than tests of pairs.

    They scan members of states in the returned graph, so no other edge may need all of these.
    """
    if graph.index_guarded.any() or (graph.mode == kernel.SCAN).any():
        return None
    found: list[tuple[int, int, int, int, bool]] = []
    modes = graph.mode.copy()
    for target in range(len(graph.edge_ptr) - 1):
        for edge in range(graph.edge_ptr[target], graph.edge_ptr[target + 1]):
            plane = _plane_of(graph, ranks, int(edge))
            if plane is None:
                continue
            modes[edge] = kernel.SCAN
            found.append((int(graph.source[edge]), target, *plane))
    if not found or not _pays(ranks, segment_ptr, found[0][3]):
        return None
    sources, targets, swept, ranged, suffix = zip(*found, strict=True)
    planes = Planes(
        np.array(sources, np.int64), np.array(targets, np.int64), np.array(swept, np.int64),
        np.array(ranged, np.int64), np.array(suffix, np.bool_),
    )  # fmt: skip
    return graph._replace(mode=modes), planes


def _plane_of(graph: GraphTables, ranks: Ranks, edge: int) -> tuple[int, int, bool] | None:
    """Return the one-sided predicate of an edge, the other one, and whether it is a lower bound."""
    pair = graph.edge_pair[edge]
    if graph.mode[edge] != kernel.RANGE or graph.guard_ptr[edge] < graph.guard_ptr[edge + 1]:
        return None
    predicates = graph.predicate[graph.pair_ptr[pair] : graph.pair_ptr[pair + 1]].tolist()
    if len(predicates) != 2 or graph.pair_mask[pair] >= 0:
        return None
    # The more selective one comes first; the tree holds it, so that the sweep need not.
    for swept, ranged in (predicates[::-1], predicates):
        asked = ranks.first[swept] >= 0
        if graph.outside[swept]:
            continue
        if not ranks.first[swept][asked].any():
            return swept, ranged, False
        if (ranks.last[swept] == ranks.ranks[swept])[asked].all():
            return swept, ranged, True
    return None


def _pays(ranks: Ranks, segment_ptr: NDArray[np.int64], ranged: int) -> bool:
    """Estimate whether joins take less time than tests of the pairs in a range."""
    lengths = np.diff(segment_ptr).astype(np.float64)
    asked = ranks.first[ranged] >= 0
    width = np.maximum(ranks.last[ranged] - ranks.first[ranged], 0)[asked]
    # Half of the rows of a range have come, on average.
    pairs = float(width.sum(dtype=np.float64)) / 2
    levels = float((lengths * np.log2(lengths / LEAF_ROWS + 1)).sum())
    return PAIR_NS * pairs > LEVEL_NS * levels


def open_room(longest: int, numbers: NDArray[Any], least: NDArray[np.int64]) -> JoinRoom:
    """Allocate the buffers of joins for the longest segment, and aggregates as those of rows."""
    nodes = 2 * longest + 2
    rows = np.zeros((9, longest + 1), np.int64)
    words = np.zeros((2, longest + 1), np.uint64)
    return JoinRoom(
        rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8],
        words[0], words[1], np.zeros((1, nodes, numbers.shape[2]), numbers.dtype),
        np.full((1, nodes, least.shape[2]), NO_VALUE, np.int64),
    )  # fmt: skip
