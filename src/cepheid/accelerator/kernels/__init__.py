"""Code that runs on the device; every module here imports ``numba.cuda``."""

from __future__ import annotations
