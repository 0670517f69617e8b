"""Split WHERE into the conditions that it joins with AND."""

from __future__ import annotations

from collections.abc import Iterator

from cepheid.language import tree


def conjuncts_of(where: tree.Expression | None) -> Iterator[tree.Expression]:
    """Split a conjunction; BETWEEN counts as two comparisons (§4.9)."""
    match where:
        case None:
            return
        case tree.Logical(operator="AND", operands=operands):
            for operand in operands:
                yield from conjuncts_of(operand)
        case tree.Between(operand=operand, low=low, high=high, negated=False, span=span):
            yield tree.Binary(span=span, operator=">=", left=operand, right=low)
            yield tree.Binary(span=span, operator="<=", left=operand, right=high)
        case _:
            yield where
