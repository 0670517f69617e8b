"""The six comparisons: as operators of Python, which others overload, and turned around."""

from __future__ import annotations

import operator as py
from collections.abc import Callable
from typing import Any

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": py.eq, "<>": py.ne, "<": py.lt, "<=": py.le, ">": py.gt, ">=": py.ge,
}  # fmt: skip

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""``a < b`` is ``b > a``."""
