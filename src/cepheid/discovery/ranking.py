"""Compare the cases that a rule reports with a label: how much more often than by chance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Groups(NamedTuple):
    """The number of all cases, and of those with the label."""

    cases: int
    labelled: int


def chi_square(
    reported: NDArray[np.int64], labelled: NDArray[np.int64], groups: Groups
) -> NDArray[np.float64]:
    """Compute Pearson's chi-square of the label among reported cases.

    Zero where a rule reports no case, or all of them, or where all or no cases have the label.

    Examples
    --------
    >>> chi_square(np.array([10, 20]), np.array([10, 10]), Groups(40, 20)).round(2).tolist()
    [13.33, 0.0]
    """
    total, marked = float(groups.cases), float(groups.labelled)
    given, found = reported.astype(np.float64), labelled.astype(np.float64)
    spread = given * (total - given) * marked * (total - marked)
    # The determinant of the table of two by two, without products of large whole numbers.
    apart = found * total - given * marked
    return np.divide(total * apart**2, spread, out=np.zeros(len(given)), where=spread > 0)


def chance(chi: float, rules: int) -> float:
    """Return the probability of such a chi-square for the best of so many rules (Bonferroni)."""
    return min(1.0, rules * math.erfc(math.sqrt(chi / 2)))


def lift(reported: int, labelled: int, groups: Groups) -> float | None:
    """Compute the lift: the label's share among reported cases over its share among all."""
    if not reported or not groups.labelled:
        return None
    return labelled / reported * groups.cases / groups.labelled
