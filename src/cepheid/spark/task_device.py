"""The GPU that Spark assigns to a task, where ``spark.task.resource.gpu.amount`` is set."""

from __future__ import annotations

from pyspark import TaskContext

RESOURCE = "gpu"


def task_address() -> str | None:
    """Look up the address of the GPU that Spark assigned to this task; None without one."""
    context = TaskContext.get()
    found = context.resources().get(RESOURCE) if context is not None else None
    return str(found.addresses[0]) if found is not None and found.addresses else None
