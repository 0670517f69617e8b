"""Limits of the alerts of a rule."""

from __future__ import annotations

import msgspec


class Limit(msgspec.Struct, frozen=True):
    """At most so many alerts in any stretch of time, for each value of some columns of the rows."""

    rows: int
    per_us: int
    by: tuple[str, ...] = ()
