"""Where ways differ by decision, or are known to and not mended yet: such an entry goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.agreement.representations import plain_rows
from tests.agreement.values import Trial

from cepheid.events.temporal import TIME_MAX


class Known(NamedTuple):
    """Trials that are left out, and why; of some ways only if those are named."""

    why: str
    holds: Callable[[Trial], bool]
    ways: tuple[str, ...] = ()


def _times(trial: Trial) -> list[int]:
    """Return the times of events in ticks of whole numbers, or in nanoseconds."""
    rows = [row for table in trial.tables.values() for row in plain_rows(table)]
    return [row[trial.time] for row in rows]


def _is_far(trial: Trial) -> bool:
    return trial.forms.get("ts", "").startswith(("int", "uint")) and any(
        not -TIME_MAX <= time <= TIME_MAX for time in _times(trial)
    )


KNOWN: list[Known] = [
    Known(
        "a store refuses far times at the door, a query where it reads them",
        _is_far,
        ("store by index", "store by replay", "Spark store"),
    ),
]


def is_known(trial: Trial) -> bool:
    """Return whether a trial would show what is known already on every way."""
    return any(known.holds(trial) for known in KNOWN if not known.ways)


def is_known_of(trial: Trial, way: str) -> bool:
    """Return whether a trial would show what is known already of a way."""
    return any(known.holds(trial) for known in KNOWN if way in known.ways)
