"""A template's states and edges in, the tables of ``kernels/neighbour_sets.py`` out."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.neighbour_sets import STATES_MAX

Bytes = NDArray[np.uint8]


class SetTables(NamedTuple):
    """The states of some variables; what follows a set, and precedes a state, by held pairs.

    ``begins`` and ``final`` are sets of states.
    """

    fitting: Bytes
    follows: Bytes
    sources: Bytes
    begins: np.uint8
    final: np.uint8


def set_tables(
    variable: NDArray[np.int64], edge_ptr: NDArray[np.int64], source: NDArray[np.int64],
    pair: NDArray[np.int64], final: NDArray[np.bool_], *, variables: int, pairs: int,
) -> SetTables | None:  # fmt: skip
    """Build the tables of a template, of so many variables and pairs of them with conditions.

    None if a set has no room for all, or matches would come in another order: sources are tried in
    their order, the begin of a match first, and ``neighbours.py`` tries edges as they come.
    """
    states = len(variable)
    if states > STATES_MAX or pairs >= STATES_MAX or variables > STATES_MAX:
        return None
    edges = [slice(begin, end) for begin, end in pairwise(edge_ptr.tolist())]
    if any((np.diff(source[one]) <= 0).any() for one in edges):
        return None
    sets = np.arange(1 << states)
    kinds = np.arange(1 << variables)
    held = np.arange(2 << pairs)
    fitting = np.zeros(len(kinds), np.uint8)
    follows = np.zeros((len(held), len(sets)), np.uint8)
    sources = np.zeros((len(held), states), np.uint8)
    begins = 0
    for state, one in enumerate(edges):
        fitting |= ((kinds >> variable[state] & 1) << state).astype(np.uint8)
        for origin, number in zip(source[one].tolist(), pair[one].tolist(), strict=True):
            if origin < 0:
                begins |= 1 << state
                continue
            open_ = held >> number & 1
            follows |= ((open_[:, None] & (sets >> origin & 1)) << state).astype(np.uint8)
            sources[:, state] |= (open_ << origin).astype(np.uint8)
    ends = sum(1 << state for state in np.flatnonzero(final).tolist())
    return SetTables(fitting, follows, sources, np.uint8(begins), np.uint8(ends))
