"""Find the earliest points at which matches become final, from the constraints (§9.6).

Once one of two situations has ended, their relation is fixed, whatever the other's end will be.
While both are open, three relations are possible: the prefix group of their starts. A constraint
that allows the whole group is final at the later start, any other at the earlier end.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.plans.situations import (
    PREFIX_GROUPS,
    SituationConstraint,
    SituationDefinition,
    Triggers,
    inverse_of,
    relations_of,
)

_AFTER = 0b11 << 11
"""``met by`` and ``after``: final when the later one starts."""
_ENDS_FIRST = (1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 8, 1 << 9)
"""The relations in which A ends first or at the same time, of situations that overlap."""


def find_triggers(
    definitions: Sequence[SituationDefinition],
    constraints: Sequence[SituationConstraint],
    *,
    waits: bool,
) -> tuple[Triggers, ...]:
    """Find the endpoints of situations that can make a match final.

    Parameters
    ----------
    waits
        All ends must be known, because the window reaches from the first start to the last end.
    """
    found = []
    for number, definition in enumerate(definitions):
        masks = [c.mask for c in constraints if c.left == number]
        masks += [inverse_of(c.mask) for c in constraints if c.right == number]
        if waits or definition.has_most:
            found.append(Triggers(start=False, lasted=False, end=True))
            continue
        start = not masks or any(_certain_at_start(mask) for mask in masks)
        end = any(_certain_at_end(mask) for mask in masks)
        lasted = definition.has_least
        found.append(Triggers(start=start and not lasted, lasted=lasted, end=end))
    return tuple(found)


def _certain_at_start(mask: int) -> bool:
    """Check whether A's start can make a constraint final."""
    return bool(mask & _AFTER) or any(
        mask & group == group for group in (PREFIX_GROUPS[1], PREFIX_GROUPS[2])
    )


def _certain_at_end(mask: int) -> bool:
    """Check whether A's end can make a constraint final."""
    for group in PREFIX_GROUPS:
        if mask & group != group and any(mask & group & relation for relation in _ENDS_FIRST):
            return True
    return False


def explain_detection(
    definitions: Sequence[SituationDefinition], constraint: SituationConstraint
) -> list[str]:
    """Describe when a constraint is final, one line for each case."""
    left, right = definitions[constraint.left].name, definitions[constraint.right].name
    mask = constraint.mask
    lines = []
    for group, order, later in (
        (PREFIX_GROUPS[0], f"{left}.ts < {right}.ts", right),
        (PREFIX_GROUPS[1], f"{left}.ts = {right}.ts", left),
        (PREFIX_GROUPS[2], f"{right}.ts < {left}.ts", left),
    ):
        if mask & group == group:
            names = _names(group)
            lines.append(f"{names}: at {later}.ts; all that can follow {order} is allowed")
        elif mask & group:
            missing = _names(group & ~mask)
            ends = _first_ends(mask & group, left, right)
            lines.append(f"{_names(mask & group)}: at {ends}; until then also {missing} could be")
    for part, later, earlier in ((mask & 0b11, right, left), (mask & _AFTER, left, right)):
        if part:
            lines.append(f"{_names(part)}: at {later}.ts, when {earlier} has ended")
    return lines


def _names(mask: int) -> str:
    return ", ".join(relation.value for relation in relations_of(mask))


def _first_ends(mask: int, left: str, right: str) -> str:
    """Name the situation that ends first in some relations of one prefix group."""
    ends = []
    if any(mask & 1 << n for n in (2, 5, 8)):
        ends.append(f"{left}.te")
    if any(mask & 1 << n for n in (4, 7, 10)):
        ends.append(f"{right}.te")
    if not ends:
        return f"{left}.te = {right}.te"
    return " or ".join(ends)
