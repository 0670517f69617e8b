"""The first kernel of a process: a device that compiles and runs it works."""

from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def add_one(numbers):
    """Add one to the first number."""
    if cuda.grid(1) == 0:
        numbers[0] += 1.0


def adds_one() -> bool:
    """Compile and run a kernel, and check its result."""
    numbers = cuda.to_device(np.array([41.0]))
    add_one[1, 1](numbers)
    return bool(numbers.copy_to_host()[0] == 42.0)
