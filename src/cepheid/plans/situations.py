"""The plan of a query about situations: definitions, their relations, and when a match is final.

Relations are numbered as situations A stand in time to one situation B: 0 is ``before``, 12 is
``after``, and the inverse of relation i is 12 - i. A set of relations is a bit mask.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cepheid.language import tree

NUMBERS = {
    relation: number
    for number, relation in enumerate(
        [
            tree.Relation.BEFORE,
            tree.Relation.MEETS,
            tree.Relation.OVERLAPS,
            tree.Relation.FINISHED_BY,
            tree.Relation.CONTAINS,
            tree.Relation.STARTS,
            tree.Relation.EQUALS,
            tree.Relation.STARTED_BY,
            tree.Relation.DURING,
            tree.Relation.FINISHES,
            tree.Relation.OVERLAPPED_BY,
            tree.Relation.MET_BY,
            tree.Relation.AFTER,
        ]
    )
}
"""Every relation and its number."""

RELATION_COUNT = len(NUMBERS)
PREFIX_GROUPS = (0b111 << 2, 0b111 << 5, 0b111 << 8)
"""The possible relations of two open situations: A began first, both at once, B began first."""


def mask_of(relations: Iterable[tree.Relation]) -> int:
    """Encode a set of relations as a bit mask."""
    return sum({1 << NUMBERS[relation] for relation in relations})


def relations_of(mask: int) -> tuple[tree.Relation, ...]:
    """Decode the relations of a mask, in time order."""
    return tuple(relation for relation, number in NUMBERS.items() if mask >> number & 1)


def inverse_of(mask: int) -> int:
    """Invert a mask: compute the relations of B to A from those of A to B.

    Examples
    --------
    >>> from cepheid.language.tree import Relation
    >>> relations_of(inverse_of(mask_of([Relation.BEFORE, Relation.DURING])))
    (<Relation.CONTAINS: 'contains'>, <Relation.AFTER: 'after'>)
    """
    return sum(1 << (RELATION_COUNT - 1 - n) for n in range(RELATION_COUNT) if mask >> n & 1)


class SituationDefinition(msgspec.Struct, frozen=True):
    """One kind of situation; the attributes of its condition have its name as variable.

    The duration is bounded in ticks, and the number of events.
    """

    name: str
    condition: tree.Expression
    at_least: int = 0
    at_most: int | None = None
    least_events: int = 0
    most_events: int | None = None

    @property
    def has_least(self) -> bool:
        """Check whether a situation is too short at first."""
        return self.at_least > 0 or self.least_events > 1

    @property
    def has_most(self) -> bool:
        """Check whether a situation may become too long."""
        return self.at_most is not None or self.most_events is not None


class Relative(msgspec.Struct, frozen=True):
    """A value from outside of the event: PREV, or an aggregate of the situation so far."""

    function: str
    attribute: str | None = None

    @property
    def column(self) -> str:
        """Name the column that stands for it in the condition."""
        return f"{self.function}({self.attribute or '*'})"


class RelativeDefinition(msgspec.Struct, frozen=True):
    """A definition by its number that looks at more than one event (§9.10)."""

    number: int
    uses: tuple[Relative, ...]
    until: tree.Expression | None = None


class SituationConstraint(msgspec.Struct, frozen=True):
    """The relations that may hold between the situations of two definitions, left before right."""

    left: int
    right: int
    mask: int


class SituationColumn(msgspec.Struct, frozen=True):
    """One result column: a function of the events of a situation, or one of its ends.

    ``function`` is FIRST, LAST, COUNT, SUM, AVG, MIN, MAX, START or END.
    """

    name: str
    function: str
    situation: int
    attribute: str | None = None


class Triggers(msgspec.Struct, frozen=True):
    """The endpoints of a definition's situations that can make a match final."""

    start: bool
    lasted: bool
    end: bool


class Situations(msgspec.Struct, frozen=True):
    """All decisions about situations.

    ``within`` bounds a match from its first start to its last end or, if ``early``, to the moment
    at which it is final. ``orders`` lists for each definition the join order of the others, for a
    match that one of its situations triggers.
    """

    definitions: tuple[SituationDefinition, ...]
    where: tree.Expression | None
    constraints: tuple[SituationConstraint, ...]
    within: int | None
    early: bool
    listed: tuple[int, ...]
    columns: tuple[SituationColumn, ...]
    triggers: tuple[Triggers, ...]
    orders: tuple[tuple[int, ...], ...]
    relative: tuple[RelativeDefinition, ...] = ()
