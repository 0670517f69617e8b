"""What every task does first: find the kernels that the driver sent, and keep the worker quick."""

from __future__ import annotations

import gc

from pyspark import TaskContext

from cepheid.spark.kernels import use_shipped_kernels

FREEZES = 8
"""Tasks of a worker after which all modules and kernels that its queries need are loaded."""

_begun = 0


def begin_task() -> None:
    """Prepare a worker for a task.

    Spark collects garbage after every task of a worker. What has been loaded so far is none, and
    looking at it again each time takes several times as long as a small task does.
    """
    use_shipped_kernels()
    global _begun  # A worker is a process.
    if _begun < FREEZES and TaskContext.get() is not None:
        _begun += 1
        gc.freeze()
