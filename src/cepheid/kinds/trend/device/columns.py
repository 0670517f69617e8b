"""Read Arrow columns on the GPU, where the CPU would spend most of its time.

This is for queries that count over one partition, where the type alone determines the effect of an
event. The dictionary indices of the type column are copied to the GPU and converted to codes there.
Times are copied to be checked: they must be sorted and, under TIES strict, all different.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.kernels.columns import check_times, look_up
from cepheid.accelerator.linear import DeviceSystem, default_sizes
from cepheid.accelerator.systems import system_of
from cepheid.arrays.columns import Columns, read_times
from cepheid.kinds.trend.device.summaries import start_of
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.summaries import Summary
from cepheid.language import tree
from cepheid.plans.plan import WindowKind

BLOCKS_MAX = 4096


def reads_types_only(job: Job) -> bool:
    """Check whether types alone determine the effect of events, and only counts are needed."""
    plan = job.plan
    counts = len(job.parts) == 1 and not job.extremes and not job.moduli
    return (
        counts
        and plan.window.kind is WindowKind.NONE
        and plan.type is not None
        and not plan.local
        and not plan.partition.attributes
        and len(job.variables) <= 8
        and len(job.programs) == 1
    )


def indices_of(columns: Columns, name: str) -> tuple[NDArray[Any], list[Any]] | None:
    """Read the indices and the texts of a single dictionary; None for any other column."""
    if name not in columns.batch.column_names:
        return None
    column = columns.batch.column(name)
    if not pa.types.is_dictionary(column.type) or column.null_count or column.num_chunks != 1:
        return None
    chunk: Any = column.chunk(0)
    return chunk.indices.to_numpy(), chunk.dictionary.to_pylist()


def codes_of_types(job: Job, names: list[Any]) -> NDArray[np.uint8]:
    """Compute the code of every text of a dictionary of types."""
    program = job.programs[0]
    table = job.byte_codes(program)
    types = [job.types[name] for name in job.variables]
    bits = [sum(1 << n for n, t in enumerate(types) if t == str(name)) for name in names]
    return table[np.array([*bits, 0], np.int64)]


def count_table(job: Job, table: pa.Table) -> Summary | None:
    """Compute the matrix of a whole table; None if the CPU must read its events.

    That is so if its types have several dictionaries, if its times are unsorted or tied where that
    matters, and if counts need a separate exponent per number.
    """
    program = job.programs[0]
    system = system_of(program, *job.columns_of(program))
    columns = Columns(table)
    found = indices_of(columns, str(job.plan.type)) if len(table) else None
    if system is None or found is None:
        return None
    device = DeviceSystem(system)
    if not device.counts:
        return None
    sizes = default_sizes()
    indices, names = found
    codes = cuda.device_array(-(-len(indices) // 8) * 8, np.uint8)
    blocks = min(-(-len(codes) // sizes.threads), BLOCKS_MAX)
    look_up[blocks, sizes.threads](
        cuda.to_device(indices), cuda.to_device(codes_of_types(job, names)), system.identity, codes
    )
    verdict = cuda.to_device(np.zeros(2, np.int32))
    times = cuda.to_device(read_times(columns, job.plan.time))
    check_times[blocks, sizes.threads](times, verdict)
    flags = cuda.to_device(np.zeros(1, np.int32))
    matrices = device.count(codes.view(np.uint64), sizes, flags)
    matrices = device.multiply(matrices, np.array([len(matrices.numbers)]), sizes)
    back, tied = verdict.copy_to_host()
    strict = job.plan.ties is tree.Ties.STRICT
    if back or (tied and strict) or flags.copy_to_host()[0]:
        return None
    numbers = matrices.numbers.copy_to_host().view(np.complex128)[..., 0]
    starts, size = program.start_size, program.size
    nothing = np.zeros((1, size, 0, starts + size), np.int64)
    start = start_of(numbers[:, :starts, 0].real)
    zero = np.zeros(1, np.int64)
    return Summary(zero, zero, np.ascontiguousarray(numbers[:, starts:]), nothing, start)
