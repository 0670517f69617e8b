"""Questions to an evaluation that looks up earlier events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays
from cepheid.kinds.trend.look_back.relations import Relation
from cepheid.kinds.trend.planning.aliases import Aliases
from cepheid.language import tree
from cepheid.plans.links import Links
from cepheid.plans.plan import Evaluator


class Question(NamedTuple):
    """The input of an evaluation: events, predicates, and the evaluator."""

    arrays: EventArrays
    columns: Columns
    relations: list[Relation]
    variables: list[str]
    semantics: tree.Semantics
    evaluator: Evaluator
    together: bool
    ending: bool
    weight_of: NDArray[np.int32]
    value_of: NDArray[np.int32]
    listed: tuple[frozenset[str], ...]
    codes: tuple[NDArray[np.int64], ...]
    apart: tuple[NDArray[np.bool_], ...]
    links: Links | None = None

    @property
    def listed_bits(self) -> list[int]:
        """Encode the variables of each partial equivalence as bits."""
        return [
            sum(1 << n for n, name in enumerate(self.variables) if name in names)
            for names in self.listed
        ]

    @property
    def aliases(self) -> Aliases:
        """Number the aliases of variables with partial equivalences."""
        return Aliases(self.variables, self.listed)
