"""The loops of a SELECT over events: filter, fold into slots, and match pairs; here on the CPU.

``device/operators.py`` does the same on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.arrays.pairing import members
from cepheid.expressions.vectors import Vector
from cepheid.kinds.selection.bags import Bags
from cepheid.kinds.selection.groups import Codes
from cepheid.kinds.selection.moments import Moments, SumBounds
from cepheid.kinds.selection.rows import Rows, holds, holds_in, project_rows, take_vector
from cepheid.kinds.selection.sketches import Sketches
from cepheid.language import tree
from cepheid.plans.selection import Selection

if TYPE_CHECKING:
    from cepheid.kinds.selection.windows import Stretches

Measured = Moments | Bags | Sketches


class Pairs(NamedTuple):
    """Row numbers of the first and of the second stream."""

    left: Rows
    right: Rows


class Candidates(NamedTuple):
    """The candidates of probes: ``rows`` from begins to ends - 1 of the other stream."""

    probes: Rows
    rows: Rows
    begins: Rows
    ends: Rows
    swapped: bool = False
    """Whether probes are of the second stream."""

    def pairs(self, probes: Rows, rows: Rows) -> Pairs:
        """Put the first stream first."""
        return Pairs(rows, probes) if self.swapped else Pairs(probes, rows)


class Joined(NamedTuple):
    """Conditions on pairs: ``lookup`` gives whether an attribute is of the second stream, too."""

    conditions: Sequence[tree.Expression]
    lookup: Callable[[tree.Attribute], tuple[int, Vector]]

    def vectors_of(self, pairs: Pairs) -> Callable[[tree.Attribute], Vector]:
        """Build a function that looks up the values of an attribute for all pairs, once each."""
        taken: dict[tuple[str, str], Vector] = {}

        def look_up(attribute: tree.Attribute) -> Vector:
            key = (attribute.variable.text, attribute.attribute.text)
            if key not in taken:
                side, vector = self.lookup(attribute)
                taken[key] = take_vector(vector, pairs[side])
            return taken[key]

        return look_up


class Operators:
    """The operators on the CPU."""

    def keep(self, table: pa.Table, conditions: Sequence[tree.Expression]) -> pa.Table:
        """Keep the events for which all conditions are true, in order."""
        mask = holds_in(Columns(table), conditions)
        return table if mask is None or mask.all() else table.filter(pa.array(mask))

    def measured(
        self, select: Selection, time: str, table: pa.Table, sums: SumBounds
    ) -> Stretches | None:
        """Aggregate the columns of a table as they are; None to go event by event."""
        del select, time, table, sums
        return None

    def fold(
        self, measured: Sequence[Measured], rows: Codes, slots: Codes, size: int
    ) -> tuple[Codes, list[Measured]]:
        """Fold what was measured of rows into slots; count the events of each slot, too."""
        counted = Moments.counts(rows).gathered(slots, size).known
        return counted, [_folded(one, slots, rows, counted) for one in measured]

    def match(self, joined: Joined, candidates: Candidates) -> Iterator[Pairs]:
        """Find the pairs of candidates for which all conditions are true, in blocks."""
        for pairs in blocks_of(candidates):
            yield matching(joined, pairs)


ON_CPU = Operators()


def filter_rows(select: Selection, table: pa.Table, by: Operators = ON_CPU) -> pa.Table:
    """Filter a table by WHERE; rows keep their order."""
    return project_rows(select, by.keep(table, select.condition))


def _folded(one: Measured, slots: Codes, rows: Codes, counted: Codes) -> Measured:
    """Add up what was measured in each slot; values that are known in all rows are counted."""
    size = len(counted)
    if isinstance(one, Moments) and one.known is rows:
        return one._replace(known=rows[:0]).gathered(slots, size)._replace(known=counted)
    return one.gathered(slots, size)


def blocks_of(candidates: Candidates) -> Iterator[Pairs]:
    """Enumerate all pairs of candidates in blocks, by probe and then by row."""
    probes, rows, begins, ends, _ = candidates
    counts = np.maximum(ends - begins, 0)
    for numbers, at in members(begins, counts):
        yield candidates.pairs(probes[numbers], rows[at])


def matching(joined: Joined, pairs: Pairs) -> Pairs:
    """Keep the pairs for which all conditions are true."""
    if not joined.conditions:
        return pairs
    mask: NDArray[np.bool_] | None = holds(
        joined.conditions, joined.vectors_of(pairs), len(pairs.left)
    )
    return pairs if mask is None else Pairs(pairs.left[mask], pairs.right[mask])
