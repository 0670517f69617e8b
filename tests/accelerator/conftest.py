"""Kernels of these tests run in a quicker simulator."""

from __future__ import annotations

from tests.accelerator.simulated import install

install()
