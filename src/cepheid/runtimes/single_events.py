"""Events that come one by one as dicts, gathered as columns until a step takes them.

Arrow needs a hundred microseconds to make a table of one event, and a microsecond for each event of
a thousand. So an event is only checked when it comes, and converted with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import pyarrow as pa

from cepheid.events.temporal import TIME_MAX

Check = tuple[int, Callable[[Any], bool]]
"""The place of a column, and what must hold for its value."""

_KINDS_MAX = 256
"""Events lack some of their columns in a few ways; others are converted one by one."""

_EPOCHS = {None: datetime(1970, 1, 1), "UTC": datetime(1970, 1, 1, tzinfo=UTC)}
"""The beginning of time of a column, by its zone."""
_MICROSECOND = timedelta(microseconds=1)
_LARGEST_WHOLE = 2**53


def _is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _is_exact(value: int) -> bool:
    return -_LARGEST_WHOLE <= value <= _LARGEST_WHOLE


def _is_utc(value: datetime) -> bool:
    return value.tzinfo is UTC


def _is_naive(value: datetime) -> bool:
    return value.tzinfo is None


def _is_unicode(value: str) -> bool:
    """Check that a text has no half of a surrogate pair, which UTF-8 cannot write."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_CHECKS: dict[pa.DataType, dict[type, Callable[[Any], bool] | None]] = {
    pa.int64(): {int: _is_int64},
    pa.float64(): {float: None, int: _is_exact},
    pa.string(): {str: _is_unicode},
    pa.bool_(): {bool: None},
    pa.timestamp("us"): {datetime: _is_naive},
    pa.timestamp("us", tz="UTC"): {datetime: _is_utc},
}
"""Of each type of column: the types of Python that Arrow converts without a change, and when."""


class SingleEvents:
    """Events of a schema that were gathered one by one.

    Examples
    --------
    >>> schema = pa.schema({"ts": pa.int64(), "type": pa.string()})
    >>> events = SingleEvents(schema, "ts")
    >>> events.add({"type": "A", "ts": 7}), events.add({"type": "A", "ts": "noon"}), len(events)
    (7, None, 1)
    >>> events.take().to_pylist(), len(events)
    ([{'ts': 7, 'type': 'A'}], 0)
    """

    def __init__(self, schema: pa.Schema, time: str) -> None:
        self._schema, self._rows = schema, list[tuple[Any, ...]]()
        self._place = schema.get_field_index(time)
        kind = schema.field(self._place).type
        self._epoch = _EPOCHS.get(kind.tz) if pa.types.is_timestamp(kind) else None
        # `itemgetter` of a single name returns no tuple.
        self._values = itemgetter(*schema.names, schema.names[0])
        self._checks: dict[tuple[type, ...], list[Check] | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, event: dict[str, Any]) -> int | None:
        """Add an event, and return its time; None if it has to be converted by itself."""
        try:
            row = self._values(event)
        except KeyError:
            row = (*map(event.get, self._schema.names), None)
        kinds = tuple(map(type, row))
        checks = self._checks.get(kinds)
        if checks is None:
            checks = self._checks_of(kinds)
            if checks is None:
                return None
        for place, holds in checks:
            if not holds(row[place]):
                return None
        came = row[self._place]
        time: int = came if self._epoch is None else (came - self._epoch) // _MICROSECOND
        if not -TIME_MAX <= time <= TIME_MAX:
            return None
        self._rows.append(row)
        return time

    def drop_last(self) -> None:
        """Forget the event that was added last."""
        self._rows.pop()

    def take(self) -> pa.Table:
        """Return the events as a table, and forget them."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._schema)
        self._rows = []
        arrays = [pa.array(columns[i], field.type) for i, field in enumerate(self._schema)]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _checks_of(self, kinds: tuple[type, ...]) -> list[Check] | None:
        """Find what must hold for values of these types; None if Arrow may change some."""
        if kinds in self._checks or len(self._checks) == _KINDS_MAX:
            return None
        self._checks[kinds] = None
        found: list[Check] = []
        for place, field in enumerate(self._schema):
            kind, allowed = kinds[place], _CHECKS.get(field.type, {})
            if kind is type(None) and place != self._place:
                continue
            if kind not in allowed:
                return None
            if (check := allowed[kind]) is not None:
                found.append((place, check))
        self._checks[kinds] = found
        return found
