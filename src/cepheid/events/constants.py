"""The decimal numbers that doubles stand for."""

from __future__ import annotations

from decimal import Decimal

DIGITS_MAX = 38
"""More digits before or after the point than decimal columns have."""


def loses_digits(text: str) -> bool:
    """Check whether a decimal literal has digits that the nearest double loses.

    Examples
    --------
    >>> loses_digits("0.1"), loses_digits("12345678901234567890.11")
    (False, True)
    """
    written = Decimal(text)
    exponent = written.as_tuple().exponent
    assert isinstance(exponent, int), "a constant is finite"
    if exponent < -DIGITS_MAX or written.adjusted() >= DIGITS_MAX:
        return False
    return decimal_of(float(text)) != written


def decimal_of(double: float) -> Decimal:
    """Convert a double to the decimal that it stands for (docs/semantics.md §4.10).

    Examples
    --------
    >>> decimal_of(0.1), decimal_of(2.0**63)
    (Decimal('0.1'), Decimal('9223372036854775808'))
    """
    return Decimal(int(double)) if double.is_integer() else Decimal(repr(double))
