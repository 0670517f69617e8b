"""Functions of the device that become part of whatever calls them."""

from __future__ import annotations

import inspect
from typing import Any

from numba import cuda

OPTIONS = {"forceinline": True} if "forceinline" in inspect.signature(cuda.jit).parameters else {}
"""The simulator knows no options."""


def inlined(function: Any) -> Any:
    """Return a function of the device; numbers that it takes and gives stay in registers."""
    return cuda.jit(device=True, **OPTIONS)(function)
