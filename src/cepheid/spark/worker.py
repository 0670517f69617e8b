"""Prepare a Python worker for a task: use the driver's kernels, and avoid needless GC work."""

from __future__ import annotations

import gc

from pyspark import TaskContext

from cepheid.spark.kernels import use_shipped_kernels

FREEZES = 8
"""Tasks of a worker after which all modules and kernels that its queries need are loaded."""

_begun = 0


def begin_task() -> None:
    """Prepare a worker for a task.

    Spark collects garbage after every task of a worker. The modules loaded so far are never
    garbage, and scanning them each time takes several times as long as a small task.
    """
    use_shipped_kernels()
    global _begun  # A worker is a process.
    if _begun < FREEZES and TaskContext.get() is not None:
        _begun += 1
        gc.freeze()
