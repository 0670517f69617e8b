"""The reference implementation of tables that change (§18): one change after the other.

``current_table`` applies a changelog of dicts, and ``apply_rows`` one of result rows. Both share
no code with what they judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

Change = Mapping[str, object]
Event = dict[str, object]

MEANINGS = {
    "insert": "insert", "i": "insert", "create": "insert", "c": "insert", "read": "insert",
    "r": "insert", "+i": "insert", "update": "update", "u": "update",
    "update_preimage": "before", "-u": "before", "update_postimage": "after", "+u": "after",
    "delete": "delete", "d": "delete", "-d": "delete",
}  # fmt: skip
ABOUT_CHANGES = ("_commit_version", "_commit_timestamp")


class BadChangeError(Exception):
    """A change that has no meaning (§18.3)."""


class Table:
    """A table that changes."""

    def __init__(self, op: str, id: Sequence[str] = (), time: str = "ts") -> None:  # noqa: A002
        self.op, self.id, self.time = op, tuple(id), time
        self.events: list[Event] = []
        """In the order of the last change of each (§18.5)."""
        self.final: list[Event] = []
        self.bad = self.odd = self.late = 0

    def apply(self, change: Change, until: float = -math.inf) -> None:
        """Apply one change; what is before ``until`` is final (§18.7)."""
        text = change.get(self.op)
        meaning = MEANINGS.get(text.lower()) if isinstance(text, str) else None
        event = {n: v for n, v in change.items() if n != self.op and n not in ABOUT_CHANGES}
        lacks_id = any(event.get(name) is None for name in self.id)
        adds = meaning in ("insert", "update", "after")
        no_time = adds and event.get(self.time) is None
        if meaning is None or lacks_id or no_time or (meaning == "update" and not self.id):
            self.bad += 1
            return
        self.settle(until)
        if adds and _time(event, self.time) < until:
            self.late += 1
        elif self.id:
            self._by_id(meaning, event, adds=adds)
        elif adds:
            self.events.append(event)
        else:
            self._take_equal(event)

    def settle(self, until: float) -> None:
        """Let events before a time be final."""
        self.final += [e for e in self.events if _time(e, self.time) < until]
        self.events = [e for e in self.events if _time(e, self.time) >= until]

    def _by_id(self, meaning: str, event: Event, *, adds: bool) -> None:
        if meaning == "before":
            return
        same = [e for e in self.events if _key(e, self.id) == _key(event, self.id)]
        self.odd += bool(same) if meaning == "insert" else not same
        self.events = [e for e in self.events if e not in same]
        if adds:
            self.events.append(event)

    def _take_equal(self, event: Event) -> None:
        names = sorted({*event, *(n for e in self.events for n in e)})
        for place in range(len(self.events) - 1, -1, -1):
            if _key(self.events[place], names) == _key(event, names):
                del self.events[place]
                return
        self.odd += 1

    def open(self) -> list[Event]:
        """Return the events that are not final, in the same order."""
        return sorted(self.events, key=lambda event: _time(event, self.time))

    def sorted(self) -> list[Event]:
        """Return all events in the order of time, then of their last changes."""
        return sorted([*self.final, *self.events], key=lambda event: _time(event, self.time))


def current_table(
    changes: Iterable[Change],
    op: str = "op",
    id: Sequence[str] = (),  # noqa: A002
    time: str = "ts",
) -> list[Event]:
    """Apply a changelog in which no change is bad, and return the events by time."""
    table = Table(op, id, time)
    for change in changes:
        table.apply(change)
    if table.bad:
        raise BadChangeError
    return table.sorted()


def apply_rows(rows: dict[object, Event], changelog: Iterable[Change]) -> dict[object, Event]:
    """Apply a changelog of rows to rows by their ids (§18.6); each change must fit."""
    found = dict(rows)
    for change in changelog:
        own = {name: value for name, value in change.items() if name not in ("op", "row_id")}
        number = change["row_id"]
        if change["op"] == "insert":
            assert number not in found, "a row is inserted once"
            found[number] = own
        elif change["op"] == "update":
            assert number in found, "only a row that is there is updated"
            found[number] = own
        else:
            assert change["op"] == "delete", "there are three operations"
            assert found.pop(number, None) is not None, "only a row that is there is deleted"
    return found


def _time(event: Event, name: str) -> int:
    value = event[name]
    assert isinstance(value, int), "times are whole microseconds"
    return value


def _key(event: Event, names: Sequence[str]) -> tuple[object, ...]:
    """Return values that are equal as keys are (§4.6); whole numbers and texts stay apart."""
    found: list[object] = []
    for name in names:
        value = event.get(name)
        if isinstance(value, float):
            value = "NaN" if math.isnan(value) else value + 0.0
        found.append((type(value).__name__, value))
    return tuple(found)
