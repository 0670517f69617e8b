"""Options and settings that every test shares."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# Spark starts its workers with the `python3` of the search path, which may know nothing of the
# environment that runs the tests.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# A deadline per example would fail on the first call of a compiled function; pytest-timeout
# bounds the whole test instead.
settings.register_profile("dev", max_examples=50, deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    max_examples=500,
    deadline=None,
    print_blob=True,
    derandomize=True,  # The same commit gives the same verdict.
    suppress_health_check=[HealthCheck.too_slow],  # A busy machine is not a failure.
)
settings.register_profile("nightly", max_examples=20_000, deadline=None, print_blob=True)

_on_ci = os.environ.get("CI", "").lower() in {"1", "true"}
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if _on_ci else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expectations of the golden files; review the diff",
    )
    parser.addoption(
        "--kills",
        default=3,
        type=int,
        help="how often the crash test kills the driver of a live query",
    )
