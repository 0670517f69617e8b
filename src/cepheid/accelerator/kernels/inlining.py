"""Inline device functions into their callers."""

from __future__ import annotations

import inspect
from typing import Any

from numba import cuda

OPTIONS = {"forceinline": True} if "forceinline" in inspect.signature(cuda.jit).parameters else {}
"""The simulator knows no options."""


def inlined(function: Any) -> Any:
    """Mark a device function as inlined; its arguments and results stay in registers."""
    return cuda.jit(device=True, **OPTIONS)(function)
