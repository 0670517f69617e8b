"""Tests of stores do not wait for the disk."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
