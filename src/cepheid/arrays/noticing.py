"""Notice what passes by while events are read: the types that there are, and the range of times.

Whoever runs a query says that it wants to know (``noticing``); reading then adds what it has in
hand anyway: the names of a batch's types, which it numbers, and its least and largest time, which
it checks. Nothing is read for this alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextvars import ContextVar

TYPES_MAX = 1000
"""So many types are remembered, to offer the nearest; those of the query are always."""


class Noticed:
    """The types among the events so far, and the range of times that are whole numbers."""

    def __init__(self, wanted: Iterable[str] = ()) -> None:
        self._wanted = frozenset(wanted)
        self.types: set[str] = set()
        self.times: tuple[int, int] | None = None
        self.events = 0
        # Threads that share a run notice at the same time.
        self._one_by_one = threading.Lock()

    def add_types(self, names: Iterable[str]) -> None:
        """Add the types of a batch."""
        found = set(names)
        if found <= self.types:
            return
        self.types |= found if len(self.types) < TYPES_MAX else found & self._wanted

    def add_times(self, least: int, largest: int, events: int) -> None:
        """Add the times of a batch, which may be read more than once."""
        with self._one_by_one:
            low, high = self.times or (least, largest)
            self.times = min(low, least), max(high, largest)
            self.events = max(self.events, events)


_CURRENT: ContextVar[Noticed | None] = ContextVar("noticed", default=None)


def current() -> Noticed | None:
    """Return the current listener, or None."""
    return _CURRENT.get()


class noticing:  # noqa: N801  # it is used like a function, and costs less than a generator
    """Notice what is read inside a block, and by threads that get a copy of its context."""

    def __init__(self, noticed: Noticed) -> None:
        self._noticed = noticed

    def __enter__(self) -> Noticed:
        """Begin to notice."""
        self._token = _CURRENT.set(self._noticed)
        return self._noticed

    def __exit__(self, *error: object) -> None:
        """Let whoever noticed before go on."""
        _CURRENT.reset(self._token)
