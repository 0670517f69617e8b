"""The plan of a funnel: its steps, its keys, and how long a chain may take (§12)."""

from __future__ import annotations

import msgspec

from cepheid.language import tree


class FunnelStep(msgspec.Struct, frozen=True):
    """A step: the variable, its type, and the conditions on its events."""

    variable: str
    event_type: str
    conditions: tuple[tree.Expression, ...]


class Funnel(msgspec.Struct, frozen=True):
    """The steps and keys that a funnel counts.

    ``within`` is the longest time from the first step, 0 if there is no limit; with ``slide`` it is
    the length of the windows. Both are in ticks of the events.
    """

    keys: tuple[str, ...]
    steps: tuple[FunnelStep, ...]
    within: int
    slide: int
    ties: tree.Ties
    strict_order: bool
    deduplicated: bool
    window_reason: str
