"""Arrays on the device, and the prefix sums between two launches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.compaction import scan_kernel
from cepheid.accelerator.uploading import uploader

ITEMS = 16
"""Events per thread of a filter."""

STRIPE = 4096
SCAN_THREADS = 1024


THREADED_BYTES = 8 << 20
"""Arrays of this size are copied by several threads through pinned memory, some times as fast."""


def device_of(array: Any) -> Any:
    """Copy an array to the device, unless it is already there."""
    if hasattr(array, "copy_to_host"):
        return array
    array = np.ascontiguousarray(array)
    if array.nbytes < THREADED_BYTES:
        return cuda.to_device(array)
    there = cuda.device_array(array.shape, array.dtype)
    uploader().put([[array.reshape(array.size)]], [there.reshape(array.size)])
    return there


def scan_threads() -> int:
    """Choose the number of threads of the one-block scan."""
    return 8 if find_device()[0] is Found.SIMULATOR else SCAN_THREADS


def offsets_of(counts: Any) -> tuple[Any, int]:
    """Compute the write offset of every thread, plus one entry for the end, and the total."""
    threads = scan_threads()
    offsets = cuda.device_array(len(counts) + 1, np.int64)
    total = cuda.device_array(1, np.int64)
    scan_kernel(threads)[1, threads](counts, offsets, total)
    return offsets, int(total.copy_to_host()[0])
