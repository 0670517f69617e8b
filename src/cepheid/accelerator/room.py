"""How many events are on a device at once: fewer, once its memory was full."""

from __future__ import annotations

LEAST_EVENTS = 1 << 20
"""Where so few events have no room, fewer will hardly have."""

SHARE = 4
"""The next try takes so many times fewer events."""

UNLIMITED = 1 << 62
_most = [UNLIMITED]


def events_at_once(wanted: int) -> int:
    """Return the number of events for a piece of work that would take ``wanted`` of them.

    Examples
    --------
    >>> events_at_once(1 << 20) == 1 << 20
    True
    """
    return min(wanted, _most[0])


def takes_fewer(events: int) -> bool:
    """Take fewer than some events at once from now on, in this process; False if they are few."""
    fewer = min(events, _most[0]) // SHARE
    if fewer < LEAST_EVENTS:
        return False
    _most[0] = fewer
    return True
