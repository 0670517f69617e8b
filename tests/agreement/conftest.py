"""Leaves what was compared to whoever asks: ``make long`` makes a table of it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from tests.agreement.agreement import TALLY

FOLDER = "CEPHEID_TALLY"
"""The variable with the folder of the counts, one file a process."""


@pytest.hookimpl
def pytest_sessionfinish() -> None:
    """Write how many comparisons each way has had."""
    folder = os.environ.get(FOLDER)
    if folder and TALLY.counts:
        path = Path(folder) / f"{os.getpid()}.json"
        path.write_bytes(msgspec.json.encode(TALLY.counts))
