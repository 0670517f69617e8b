"""Formats of text times: a regular expression, and the microseconds that its groups stand for.

A format is ISO 8601, or a text such as ``%d/%m/%Y %H:%M:%S``. Both become one expression in the
dialect that RE2 (Arrow) and Java (Spark) share, and its groups become microseconds by one formula
over columns of either library, so every reader reads the same time (docs/semantics.md §1.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from cepheid.events.schema import EventSchema, ValueKind
from cepheid.options import refuse, texts

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905  # shorter
_LONG_MONTHS = (
    "january february march april may june july august september october november december"
)
_LONG_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_SHORT_DAYS = "mon tue wed thu fri sat sun"

_ZONE = r"(?:z|utc|gmt|([+-])(\d\d)(?::?(\d\d))?)"
_ZONE_PARTS = ("sign", "zone_hours", "zone_minutes")
_DIRECTIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Y": (r"(\d{4})", ("year",)),
    "y": (r"(\d\d)", ("short_year",)),
    "m": (r"(\d{1,2})", ("month",)),
    "d": (r"(\d{1,2})", ("day",)),
    "H": (r"(\d{1,2})", ("hour",)),
    "I": (r"(\d{1,2})", ("half_day_hour",)),
    "p": (r"(am|pm)", ("half",)),
    "M": (r"(\d{1,2})", ("minute",)),
    "S": (r"(\d{1,2})", ("second",)),
    "f": (r"(\d{1,9})", ("fraction",)),
    "z": (_ZONE, _ZONE_PARTS),
    "b": (f"({'|'.join(MONTHS)})", ("month_name",)),
    "B": (f"({_LONG_MONTHS.replace(' ', '|')})", ("month_name",)),
    "a": (f"(?:{_SHORT_DAYS.replace(' ', '|')})", ()),
    "A": (f"(?:{_LONG_DAYS.replace(' ', '|')})", ()),
    "%": ("%", ()),
}
_SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_ISO = (
    r"(\d{4})-(\d\d)-(\d\d)(?:[ t](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)? ?"
    rf"{_ZONE}?)?"
)
_ISO_PARTS = ("year", "month", "day", "hour", "minute", "second", "fraction", *_ZONE_PARTS)
USUAL = (
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%Y%m%d",
)
"""Formats that messages offer for a text that they read."""

FORMAT_LENGTH_MAX = 100

ISO = "iso"
"""The name of ISO 8601 as a format: columns whose kind is guessed are then read as text."""


class Arithmetic(Protocol):
    """Operations that columns of one library do not write as the other's do."""

    def divide(self, left: Any, right: int) -> Any:
        """Divide whole numbers, rounded down."""

    def whole(self, condition: Any) -> Any:
        """Convert a condition to 0 and 1."""


class TimeFormat(NamedTuple):
    """A format of times: an expression for a whole text, and the names of its groups."""

    text: str
    pattern: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name the format, for messages."""
        return f"`{self.text}`" if self.text else "ISO 8601"


@lru_cache(64)
def time_format(text: str) -> TimeFormat:
    """Compile a format; an empty one is ISO 8601.

    Raises
    ------
    OptionError
        E590 if it has unknown directives, or does not name a day.

    Examples
    --------
    >>> time_format("%d/%m/%Y").parts
    ('day', 'month', 'year')
    """
    if text in ("", ISO):
        return TimeFormat("", _whole(_ISO), _ISO_PARTS)
    if len(text) > FORMAT_LENGTH_MAX:
        refuse("E590", f"time_format has at most {FORMAT_LENGTH_MAX} characters")
    spelt = re.sub("%[FTRD]", lambda found: _SHORTHANDS[found[0]], text)
    pattern, parts = "", list[str]()
    for directive, blank, literal in re.findall(r"%(.?)|(\s+)|([^%\s]+)", spelt, re.DOTALL):
        if literal or blank:
            pattern += re.escape(literal) if literal else " +"
            continue
        if directive not in _DIRECTIVES:
            known = " ".join(f"%{one}" for one in _DIRECTIVES)
            refuse("E590", f"time_format has `%{directive}`, and knows {known} %F %T %R %D")
        expression, names = _DIRECTIVES[directive]
        pattern += expression
        parts.extend(names)
    _check(text, parts)
    return TimeFormat(text, _whole(pattern), tuple(parts))


def as_format(given: object) -> str:
    """Check the format of an argument; None is ISO 8601.

    Raises
    ------
    OptionError
        E590, E592.
    """
    if given is None:
        return ""
    texts(time_format=given)
    time_format(str(given))
    return str(given)


def _whole(pattern: str) -> str:
    # `\z`, because `$` of Java also stands before a line break at the end.
    return rf"(?i)\A *{pattern} *\z"


def _check(text: str, parts: list[str]) -> None:
    """Refuse a format that does not name a day, or one thing twice."""
    found = set(parts)
    kinds = (
        ("year", {"year", "short_year"}, "%Y"),
        ("month", {"month", "month_name"}, "%m"),
        ("day", {"day"}, "%d"),
    )
    for name, choices, directive in kinds:
        if not found & choices:
            message = f"time_format `{text}` names no {name}"
            refuse("E590", message, f"add {directive}, as in '%Y-%m-%d %H:%M:%S'")
    groups = ({"year", "short_year"}, {"month", "month_name"}, {"hour", "half_day_hour"})
    if len(found) < len(parts) or any(len(found & group) > 1 for group in groups):
        refuse("E590", f"time_format `{text}` names one part of a time twice")
    if ("half_day_hour" in found) != ("half" in found):
        refuse("E590", f"time_format `{text}` has one of %I and %p, which go together")


def microseconds(parts: Mapping[str, Any], use: Arithmetic) -> tuple[Any, Any]:
    """Compute microseconds since 1970 in UTC, and whether the parts are a time at all.

    ``parts`` are columns of whole numbers; of those that a format lacks, the day starts.
    """
    year = parts["year"] if "year" in parts else _full_year(parts["short_year"], use)
    month, day = parts["month"], parts["day"]
    hour, valid = parts.get("hour", 0), (month >= 1) & (month <= 12)
    if "half_day_hour" in parts:
        half_hour = parts["half_day_hour"]
        hour = half_hour % 12 + 12 * parts["half"]
        valid &= (half_hour >= 1) & (half_hour <= 12)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longer = (month + use.whole(month > 7)) % 2
    last = 30 + longer - use.whole(month == 2) * (2 - use.whole(leap))
    valid &= (year >= 1) & (day >= 1) & (day <= last)
    minute, second = parts.get("minute", 0), parts.get("second", 0)
    zone_hours, zone_minutes = parts.get("zone_hours", 0), parts.get("zone_minutes", 0)
    limits = ((hour, 23), (minute, 59), (second, 59), (zone_hours, 23), (zone_minutes, 59))
    for value, most in limits:
        valid &= (value <= most) | (day < 0)  # A part that the format lacks is no column.
    offset = parts.get("sign", 1) * (zone_hours * 60 + zone_minutes)
    minutes = (_days(year, month, day, use) * 24 + hour) * 60 + minute - offset
    return (minutes * 60 + second) * 1_000_000 + parts.get("fraction", 0), valid


def _full_year(short: Any, use: Arithmetic) -> Any:
    """Read a year of two digits as POSIX does: 69 to 99 are of the last century."""
    return 2000 + short - 100 * use.whole(short >= 69)


def _days(year: Any, month: Any, day: Any, use: Arithmetic) -> Any:
    """Count the days from 1970 in the Gregorian calendar, which starts a year in March here."""
    shifted = year - use.whole(month <= 2)
    era = use.divide(shifted, 400)
    of_era = shifted - era * 400
    of_year = use.divide(153 * ((month + 9) % 12) + 2, 5) + day - 1
    in_era = of_era * 365 + use.divide(of_era, 4) - use.divide(of_era, 100) + of_year
    return era * 146_097 + in_era - 719_468


@lru_cache(maxsize=16)
def _with_times(schema: EventSchema, column: str) -> EventSchema:
    """Return a schema in which a column of text is one of times; the rules of a workload ask."""
    columns = (
        msgspec.structs.replace(c, kind=ValueKind.TIMESTAMP) if c.name == column else c
        for c in schema.columns
    )
    return EventSchema(tuple(columns))


class TextTimes(msgspec.Struct, frozen=True):
    """A time column that may be text, and the format of its texts; empty is ISO 8601."""

    column: str
    format: str = ""

    def planned(self, schema: EventSchema | None) -> EventSchema | None:
        """Return the columns as a query sees them: a time that is text is a timestamp.

        Raises
        ------
        OptionError
            E591 if a format is given and the column is no text.
        """
        if schema is None:
            return None
        kind = schema.kind(self.column)
        inside = self.column.partition(".")[0] in schema.names and "." in self.column
        if kind is ValueKind.TEXT and (self.column in schema.names and not inside):
            return _with_times(schema, self.column)
        read = (ValueKind.TEXT, ValueKind.TIMESTAMP, ValueKind.UNKNOWN, None)
        if self.format and kind not in read:
            assert kind is not None, "it is among those that are read"
            why = f"the times of `{self.column}` are of kind {kind.value}, not text"
            refuse("E591", f"time_format has no effect here: {why}", "leave it out")
        return schema

    def compiled(self) -> TimeFormat:
        """Compile the format."""
        return time_format(self.format)
