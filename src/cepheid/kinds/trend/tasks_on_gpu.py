"""Linear evaluation in tasks to which Spark assigns a GPU.

Queries that qualify are evaluated as matrices there; all others, and every task without a GPU, run
on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from cepheid.accelerator.assigned import scheduler_of
from cepheid.accelerator.device import select_device
from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.arrays.columns import KeyTable
from cepheid.kinds.trend.planning.needs import why_not_on_device
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.partials import RowsOfRuns, key_table
from cepheid.kinds.trend.windows.summaries import Composer, Summariser
from cepheid.spark.task_device import task_address


def summariser_of(job: Job, pane: int = 0) -> Summariser:
    """Create the summariser of this task: on its GPU if it has one, else on the CPU.

    With ``pane``, it is for panes of this length, as in live queries.
    """
    scheduler = None if why_not_on_device(job.plan) else scheduler_of(task_address())
    if scheduler is None:
        return Summariser(job, pane)
    # Loads numba.cuda, which takes a moment.
    from cepheid.kinds.trend.device.summaries import DeviceSummariser

    try:
        with reporting_failures():
            return DeviceSummariser(job, scheduler, pane=pane)
    except DeviceError as error:
        warn_once(message_of(error))
    return Summariser(job, pane)


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
