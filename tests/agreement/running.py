"""Run a trial on all ways that take it, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.agreement.agreement import Disagreement, compare, outcome_of
from tests.agreement.known import is_known_of
from tests.agreement.values import Trial
from tests.agreement.ways import WAYS, Way


def disagreements(trial: Trial, ways: Sequence[Way] = WAYS) -> list[Disagreement]:
    """Return the ways that differ from the definition, or from the first way without one."""
    outcomes = []
    for way in ways:
        if way.takes_trial(trial) and not is_known_of(trial, way.name):
            outcome = outcome_of(partial(way.run, trial))
            outcomes.append((way.name, outcome, way.lossy))
    return compare(trial, outcomes)
