"""The keys that the events of a sequence share: equivalences, or conditions between neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cepheid.expressions.format import format_name
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.eql.values import Value
from cepheid.translate.translated import CannotTranslateError


class Keys:
    """The keys of the stages of a sequence, and of the events that end it or must be missing.

    Every stage has the keys of the sequence and its own ones, in this order.
    """

    def __init__(
        self,
        several: tree.Several,
        stages: Sequence[tree.Stage],
        others: Sequence[tree.Stage],
        writer: Writer,
    ) -> None:
        self._writer = writer
        every = [[*several.keys, *stage.keys] for stage in [*stages, *others]]
        if len({len(keys) for keys in every}) > 1:
            message = "the stages have different numbers of keys"
            raise CannotTranslateError(message)
        self._columns = list(zip(*every, strict=True))
        self._count = len(stages)

    def tests(self, names: Sequence[str], *, joined: bool) -> Iterator[str]:
        """Yield the conditions of the keys for the variables of the stages."""
        for keys in self._columns:
            first = keys[0]
            same = isinstance(first, tree.Field) and all(key == first for key in keys)
            plain = same and isinstance(first, tree.Field) and not first.optional
            alone = self._count == len(keys) and not joined
            if plain and (not alone or self._writer.has_plain_keys(first)):
                if not self._writer.has_plain_keys(first):
                    note = f"events without `{self._field(first)}` are left out, and its texts "
                    self._writer.notes[note + "are compared by case"] = None
                yield f"[{format_name(self._writer.column(first))}]"
            elif alone:
                yield from self._edges(keys, names)
            else:
                message = "keys that differ from part to part, beside `until`, `!` or in a join, "
                raise CannotTranslateError(message + "have no counterpart")

    def _field(self, key: tree.Expression) -> str:
        return self._writer.of("").value(key).text

    def _edges(self, keys: Sequence[tree.Expression], names: Sequence[str]) -> Iterator[str]:
        """Compare the keys of neighbours; equality goes on from one to the next."""
        written = list(zip(keys, names, strict=True))
        for (left, one), (right, two) in pairwise(written):
            a, b = self._writer.of(one).value(left), self._writer.of(two).value(right)
            lowered = self._writer.comparable_keys(a, b)
            a, b = lowered
            missing = self._writer.null_is_a_key or _is_optional(left) or _is_optional(right)
            yield _equal(a, b, missing=missing)


def _is_optional(key: tree.Expression) -> bool:
    return isinstance(key, tree.Field) and key.optional


def _equal(one: Value, two: Value, *, missing: bool) -> str:
    same = f"{one.text} = {two.text}"
    if not missing:
        return f"({same})"
    return f"({same} OR ({one.text} IS NULL AND {two.text} IS NULL))"
