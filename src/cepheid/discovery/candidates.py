"""Candidates of rules as arrays of counts: forms, deadlines, and sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.declare import Facts
from cepheid.discovery.forms import FORMS
from cepheid.discovery.ranking import Groups

Counts = NDArray[np.int64]


class Candidates(NamedTuple):
    """Candidates of one form: their types, and numbers of cases as arrays.

    ``stake`` counts the cases that a rule speaks of, ``holds`` those in which it holds, and
    ``reported`` those that its query reports, of these ``labelled`` with the label; ``step`` is
    the place of the duration in the ladder, or -1.
    """

    form: str
    types: Counts
    stake: Counts
    holds: Counts
    reported: Counts
    labelled: Counts
    step: Counts

    def __len__(self) -> int:
        return len(self.types)

    def take(self, rows: NDArray[np.int64]) -> Candidates:
        """Return some of the candidates."""
        return Candidates(self.form, *(one[rows] for one in self[1:]))


def of_forms(facts: Facts, labelled: Facts) -> Iterator[Candidates]:
    """Yield the candidates of every form of Declare that is at stake in some case."""
    for form in FORMS:
        stake, holds = form.counts(facts)
        stake_labelled, holds_labelled = form.counts(labelled)
        if form.types == 1:
            types = np.flatnonzero(stake)[:, None]
        else:
            types = np.argwhere((stake > 0) & ~np.eye(len(stake), dtype=np.bool_))
        at = tuple(types.T)
        yield Candidates(
            form.name, types, stake[at], holds[at], (stake - holds)[at],
            (stake_labelled - holds_labelled)[at], np.full(len(types), -1),
        )  # fmt: skip


def of_waits(pairs: list[tuple[int, int]], counts: Counts) -> Iterator[Candidates]:
    """Yield the deadlines of each pair of types, one candidate for each duration of the ladder."""
    kept = counts[:, :, :-2].cumsum(axis=2)
    stake = counts.sum(axis=2)
    for step in range(kept.shape[2]):
        holds = kept[:, 0, step]
        broken = stake - kept[:, :, step]
        yield Candidates(
            "deadline", np.array(pairs), stake[:, 0], holds, broken[:, 0], broken[:, 1],
            np.full(len(pairs), step),
        )  # fmt: skip


def of_sequences(
    prefixes: list[tuple[int, ...]], stake: Counts, counts: Counts
) -> Iterator[Candidates]:
    """Yield the sequences of one length: prefixes and one more type, with every duration.

    ``stake`` are the numbers of cases that have the prefix. The last ones have no duration.
    """
    kinds = counts.shape[1]
    longer = np.array([(*one, kind) for one in prefixes for kind in range(kinds)])
    kept = counts[..., :-1].cumsum(axis=3).reshape(len(longer), 2, -1)
    spoken = np.repeat(stake, kinds)
    last = kept.shape[2] - 1
    for step in range(last + 1):
        found = kept[:, 0, step]
        yield Candidates(
            "sequence", longer, spoken, found, found, kept[:, 1, step],
            np.full(len(longer), step if step < last else -1),
        )  # fmt: skip


def is_frequent(
    found: Counts, labelled: Counts, groups: Groups, support: float
) -> NDArray[np.bool_]:
    """Say which counts are frequent: among the cases with the label, or without one among all."""
    if groups.labelled:
        return (labelled >= support * groups.labelled) & (labelled > 0)
    return (found >= support * groups.cases) & (found > 0)
