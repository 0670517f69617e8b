"""How much of a long list of cases a run checks: CI a share, ``make long`` everything.

Lists of cases that only differ in details take most of the time of a run. ``share(4)`` keeps every
fourth case of a test with parameters, and ``some(cases, 4)`` every fourth of a list. A run that
names its tests, as ``pytest tests/a.py::test_b`` or ``-k``, has them all.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

EVERYTHING = os.environ.get("HYPOTHESIS_PROFILE") == "long"

share = pytest.mark.share
"""Marks a test with parameters, of whose cases one in so many runs."""


def some(cases: Sequence[T], of: int) -> Sequence[T]:
    """Return one case in so many."""
    return cases if EVERYTHING else cases[::of]


def left_out(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that are not in the share of this run."""
    named = any("::" in argument for argument in config.args) or config.getoption("keyword")
    if EVERYTHING or named:
        return []
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (marker := item.get_closest_marker("share")) is not None:
            name, (of,) = getattr(item, "originalname", item.name), marker.args
            cases[f"{item.path}::{name}", of].append(item)
    return [case for (_, of), all_ in cases.items() for n, case in enumerate(all_) if n % of]
