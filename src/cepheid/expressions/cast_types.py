"""The types that CAST names: the kinds of their values, and what can be cast to them (§4.12)."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind

_B, _I, _D, _T = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
WHITESPACE = " \t\n\r\f\v"
_AROUND = r"[ \t\n\r\f\x0b]*"
WHOLE_TEXT = rf"^{_AROUND}[+-]?0*[0-9]{{1,19}}{_AROUND}$"
DOUBLE_TEXT = (
    rf"^{_AROUND}[+-]?(?i:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?"
    rf"|inf|infinity|nan){_AROUND}$"
)
"""The texts that are numbers; regular expressions that Arrow and Spark read alike."""
TRUE_TEXTS = ("true", "t", "yes", "y", "1")
FALSE_TEXTS = ("false", "f", "no", "n", "0")


class Target(NamedTuple):
    """A type that CAST names: the kind of its values, and the bits of whole numbers."""

    kind: ValueKind
    bits: int = 64

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the least and the largest whole number."""
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


TARGETS = {
    "BOOLEAN": Target(_B),
    "TINYINT": Target(_I, 8),
    "SMALLINT": Target(_I, 16),
    "INT": Target(_I, 32),
    "INTEGER": Target(_I, 32),
    "BIGINT": Target(_I),
    "LONG": Target(_I),
    "DOUBLE": Target(_D),
    "STRING": Target(_T),
    "VARCHAR": Target(_T),
    "DATE": Target(ValueKind.DATE),
    "TIMESTAMP": Target(ValueKind.TIMESTAMP),
}
"""The types of CAST that the language has, by name."""


def is_convertible(kind: ValueKind, target: Target) -> bool:
    """Check whether values of a kind can be cast to a type; an unknown kind may be any."""
    if kind in (ValueKind.UNKNOWN, target.kind):
        return True
    if kind in TEMPORAL:
        return target.kind in TEMPORAL
    if target.kind is _T:
        return kind in (_B, _I)
    return target.kind in (_B, _I, _D) and kind in NUMERIC | {_B, _T}
