"""Extract comparisons with constants that an event must meet to be bound to a variable.

An index can look these up. Other conditions are ignored, so that a lookup may find more events than
match, and never fewer (Körber, section 3.4: threshold predicates).
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.events.comparisons import MIRRORED
from cepheid.language import tree
from cepheid.patterns.symbols import symbols_of
from cepheid.plans.plan import TrendPlan

Constant = int | float | str


class Threshold(NamedTuple):
    """``attribute operator value`` for any one of the values; only ``=`` has several."""

    attribute: str
    operator: str
    values: tuple[Constant, ...]

    def __str__(self) -> str:
        shown = ", ".join(repr(value) for value in self.values)
        if len(self.values) > 1:
            return f"{self.attribute} IN ({shown})"
        return f"{self.attribute} {self.operator} {shown}"


def thresholds_of(plan: TrendPlan) -> dict[str, tuple[Threshold, ...]]:
    """Collect for every variable the comparisons that hold for all of its events."""
    found = {}
    for variable, symbol in symbols_of(plan).items():
        own = [read_threshold(condition) for condition in symbol.conditions]
        if symbol.event_type is not None and plan.type is not None:
            own.append(Threshold(plan.type, "=", (symbol.event_type,)))
        found[variable] = tuple(sorted((t for t in own if t is not None), key=str))
    return found


def read_threshold(condition: tree.Expression) -> Threshold | None:
    """Parse a condition as a comparison of an attribute with constants, else None."""
    match condition:
        case tree.Binary(operator=operator, left=left, right=right) if operator in MIRRORED:
            turned = _compare(left, operator, right)
            return turned or _compare(right, MIRRORED[operator], left)
        case tree.InList(operand=tree.Attribute() as attribute, items=items, negated=False):
            values = [_constant(item) for item in items]
            if attribute.anchor is not tree.Anchor.EACH or None in values:
                return None
            kept = tuple(value for value in values if value is not None)
            return Threshold(attribute.attribute.text, "=", kept)
    return None


def _compare(left: tree.Expression, operator: str, right: tree.Expression) -> Threshold | None:
    value = _constant(right)
    if isinstance(left, tree.Attribute) and left.anchor is tree.Anchor.EACH and value is not None:
        return Threshold(left.attribute.text, operator, (value,))
    return None


def _constant(expression: tree.Expression) -> Constant | None:
    match expression:
        case tree.Literal(value=value) if not isinstance(value, bool):
            return value
        case tree.Unary(operator="-", operand=tree.Literal(value=value)):
            return -value if isinstance(value, int | float) and value is not True else None
    return None
