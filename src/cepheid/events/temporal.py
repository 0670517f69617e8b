"""Durations as integer microseconds: parse ``10 min`` and format it again."""

from __future__ import annotations

import re

_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\W\d]+)\s*")
_UNITS = {
    1: ("us", "µs", "μs", "microsecond", "microseconds"),
    1_000: ("ms", "millisecond", "milliseconds"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hr", "hrs", "hour", "hours"),
    86_400_000_000: ("d", "day", "days"),
}

UNIT_MICROSECONDS = {name: length for length, names in _UNITS.items() for name in names}
"""Every spelling of a unit of time, in lower case, and its length."""

DURATION_US_MAX = 2**61
"""The longest duration, 73,000 years; in other units windows are as many ticks."""

TIME_MAX = 2**62 - 1
"""The maximum distance of a time from 1970 in ticks: sums with a duration fit 64 bits."""

LONG_AGO, FOREVER = -(2**62 + 2**61), 2**62 + 2**61 + 2**60
"""Bounds before and after all windows that hold a time."""

DIGITS_MAX = 20
"""Digits on either side of the point that a duration may have."""

_FULL_NAMES = ("microsecond", "millisecond", "second", "minute", "hour", "day")


def duration_us(amount: str, unit: str) -> int | None:
    """Convert a duration to microseconds; None if it is not a whole number of them.

    Examples
    --------
    >>> duration_us("1.5", "minutes")
    90000000
    >>> duration_us("0.5", "us") is None
    True
    """
    whole, _, decimals = amount.partition(".")
    whole, decimals = whole.lstrip("0"), decimals.rstrip("0")
    # Python reads no more than some thousand digits; so many are too long, or no whole number.
    if max(len(whole), len(decimals)) > DIGITS_MAX:
        return None
    exact, rest = divmod(
        int(whole + decimals or "0") * UNIT_MICROSECONDS[unit.lower()], 10 ** len(decimals)
    )
    return exact if rest == 0 and exact <= DURATION_US_MAX else None


def length_us(text: str) -> int | None:
    """Parse a length of time to microseconds; None if it is none, or not a whole number of them.

    Examples
    --------
    >>> length_us("1.5 minutes"), length_us("10s"), length_us("soon")
    (90000000, 10000000, None)
    """
    found = _LENGTH.fullmatch(text)
    if found is None or found[2].lower() not in UNIT_MICROSECONDS:
        return None
    return duration_us(found[1], found[2])


def format_duration(microseconds: int) -> str:
    """Format a duration in the largest unit that divides it.

    Examples
    --------
    >>> format_duration(90_000_000), format_duration(86_400_000_000), format_duration(0)
    ('90 seconds', '1 day', '0 microseconds')
    """
    for length, name in zip(sorted(_UNITS, reverse=True), reversed(_FULL_NAMES), strict=True):
        if microseconds % length == 0 and (microseconds or length == 1):
            count = microseconds // length
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return f"{microseconds} microseconds"
