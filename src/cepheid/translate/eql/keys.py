"""The keys that the events of a sequence share: equivalences, or conditions between neighbours.

Keys that differ from stage to stage beside ``until``, an absent event or in a join are columns of a
stream of their own, which has for each event the key of its category.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cepheid.expressions.format import format_literal, format_name
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.eql.values import Value
from cepheid.translate.translated import CannotTranslateError

KEYED = "keyed"
"""The stream of events with their keys, and the column of their categories."""
CATEGORY = "keyed_category"


class Keys:
    """The keys of the stages of a sequence, and of the events that end it or must be missing.

    Every stage has the keys of the sequence and its own ones, in this order. ``alone`` says that
    the stages are all there is, and come in one order: then conditions between neighbours do.
    """

    def __init__(
        self,
        several: tree.Several,
        stages: Sequence[tree.Stage],
        others: Sequence[tree.Stage],
        writer: Writer,
    ) -> None:
        self._writer, self._stages = writer, [*stages, *others]
        every = [[*several.keys, *stage.keys] for stage in self._stages]
        if len({len(keys) for keys in every}) > 1:
            message = "the stages have different numbers of keys"
            raise CannotTranslateError(message)
        self._columns = list(zip(*every, strict=True))
        self._alone = not others and several.kind != "join"
        self._computed: list[tuple[tree.Expression, ...]] = []
        if not self._alone:
            self._computed = [keys for keys in self._columns if not self._is_shared(keys)]

    @property
    def stream(self) -> str:
        """Write the stream that has the keys as columns; empty if none is needed."""
        if not self._computed:
            return ""
        plain = self._writer.of("")
        columns = [f"{plain.category} AS {CATEGORY}"]
        columns += [f"{key} AS {name}" for name, key in self._named()]
        categories = {stage.events.category for stage in self._stages}
        listed = ", ".join(format_literal(one) for one in sorted(categories))
        where = "" if "" in categories else f" WHERE {plain.category} IN ({listed})"
        return f"CREATE STREAM {KEYED} AS SELECT *, {', '.join(columns)} FROM log{where};\n"

    def tests(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the conditions of the keys for the variables of the stages."""
        for keys in self._columns:
            first, plain = keys[0], self._writer.has_plain_keys(keys[0])
            if self._is_shared(keys) and (not self._alone or plain):
                if not plain:
                    note = f"events without `{self._field(first)}` are left out, and its texts "
                    self._writer.notes[note + "are compared by case"] = None
                yield f"[{format_name(self._writer.column(first))}]"
            elif self._alone:
                yield from self._edges(keys, names)
        if self._computed:
            yield f"[{', '.join(name for name, _ in self._named())}]"

    def _is_shared(self, keys: Sequence[tree.Expression]) -> bool:
        """Check whether all stages have one field as key, which is a column for an equivalence.

        Where events that lack it have a key in common, it is none if its type is known: then a
        column says which events these are.
        """
        first = keys[0]
        if not isinstance(first, tree.Field) or first.optional or any(k != first for k in keys):
            return False
        return self._writer.has_plain_keys(first) or not self._writer.value(first).kind

    def _named(self) -> list[tuple[str, str]]:
        """Name the computed keys, and write each as a column."""
        written = [one for keys in self._computed for one in self._written(keys)]
        return [(f"key_{number}", one) for number, one in enumerate(written, 1)]

    def _written(self, keys: Sequence[tree.Expression]) -> list[str]:
        """Write a key as columns: one value for each category, and whether it is missing."""
        plain = self._writer.of("")
        optional = any(_is_optional(key) for key in keys)
        if all(key == keys[0] for key in keys):
            return plain.key(keys[0], optional=optional)
        found: dict[str, tree.Expression] = {}
        for key, stage in zip(keys, self._stages, strict=True):
            if found.setdefault(stage.events.category, key) != key or not stage.events.category:
                message = "keys that differ between events of one category, beside `until`, `!` or "
                raise CannotTranslateError(message + "in a join, have no counterpart")
        kinds = {plain.value(key).kind for key in found.values()}
        if len(kinds - {""}) > 1:
            message = f"keys of a sequence are {' and '.join(sorted(kinds - {''}))}"
            raise CannotTranslateError(message)
        columns = [plain.key(key, optional=optional) for key in found.values()]
        if len({len(one) for one in columns}) > 1:
            message = "of some keys of a sequence the type is known, and of others it is not"
            raise CannotTranslateError(message)
        return [
            f"CASE {plain.category} {self._choices(found, texts)} END"
            for texts in zip(*columns, strict=True)
        ]

    @staticmethod
    def _choices(categories: dict[str, tree.Expression], texts: Sequence[str]) -> str:
        pairs = zip(categories, texts, strict=True)
        return " ".join(f"WHEN {format_literal(one)} THEN {text}" for one, text in pairs)

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
