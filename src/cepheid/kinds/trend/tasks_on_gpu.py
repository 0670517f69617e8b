"""Tasks to which Spark assigns a GPU: its address, and linear evaluation on it.

A task has a GPU where ``spark.task.resource.gpu.amount`` is set; ``TaskContext.resources()`` has
its address. Queries that qualify are evaluated as matrices there; all others, and every task
without a GPU, run on the CPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from cepheid.accelerator.device import Found, select_device
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.arrays.columns import KeyTable
from cepheid.kinds.trend.planning.needs import why_not_on_device
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.partials import RowsOfRuns, key_table
from cepheid.kinds.trend.windows.summaries import Composer, Summariser

RESOURCE = "gpu"


def task_address() -> str | None:
    """Look up the address of the GPU that Spark assigned to this task; None without one."""
    context = TaskContext.get()
    found = context.resources().get(RESOURCE) if context is not None else None
    return str(found.addresses[0]) if found is not None and found.addresses else None


def summariser_of(job: Job) -> Summariser:
    """Create the summariser of this task: on its GPU if it has one, else on the CPU."""
    address = task_address()
    if address is None or why_not_on_device(job.plan):
        return Summariser(job)
    found, name = select_device(address)
    if not found.usable:
        warnings.warn(f"a task has GPU {address}, but works on the CPU: {name}", stacklevel=2)
        return Summariser(job)
    # Loads numba.cuda, which takes a moment.
    from cepheid.kinds.trend.device.summaries import DeviceSummariser

    # The scheduler would never choose the slow simulator, so it is forced.
    return DeviceSummariser(job, Scheduler(Place.GPU if found is Found.SIMULATOR else None))


def on_device(job: Job) -> bool:
    """Check whether this task runs a whole query as matrices on its GPU."""
    address = task_address()
    if address is None or why_not_on_device(job.plan):
        return False
    return select_device(address)[0].usable


def run_on_device(
    job: Job, tables: Iterable[pa.Table], schema: pa.Schema
) -> tuple[RowsOfRuns, KeyTable]:
    """Compute the rows of all windows of events in time order, and the keys."""
    summariser, composer = summariser_of(job), Composer(job)
    for table in gathered(tables, summariser.step_rows):
        summariser.feed(table)
    keys, summaries = summariser.close()
    composer.add(key_table(keys, np.arange(len(keys)), schema), summaries)
    return composer.finish(), composer.keys


def gathered(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Concatenate tables until they have ``rows`` rows."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= rows:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
