"""Compile the loops of the baselines: a Python function in, a compiled one of the same type out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile with numba and keep the machine code on disk.

    Sums may be reordered, so that the compiler can add several numbers at a time: without it the
    quadratic baselines would be several times slower than they have to be.
    """
    compiled = numba.njit(cache=True, fastmath={"reassoc", "nsz", "contract"})(function)
    return cast("Function", compiled)
