"""List matches of one event over a whole table: a filter, with no key that needs a number.

A pattern of one event has such matches, also beside a NOT with a deadline, which is a mark on the
event (§2.12). The matches and their order are those of ``Walker``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.kinds.trend.listing.found import Aligned
from cepheid.kinds.trend.listing.walk import is_one_event
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.match_tables import build_matches
from cepheid.plans.plan import WindowKind

ROWS_MAX = (1 << 31) - 1
"""Numbers of rows have 32 bits."""


def lists_one_event(job: Job, schema: pa.Schema, event_count: int) -> bool:
    """Check whether all matches are one event, without windows, and keys are of a usual type."""
    plan = job.plan
    template = job.templates[0]
    return (
        job.patterns == 1
        and event_count <= ROWS_MAX
        and is_one_event(template)
        and not template.guards
        and plan.window.kind is WindowKind.NONE
        and plan.skip is None
        and plan.links is None
        and not plan.globals
        and not plan.partition.partial
        and all(name in schema.names for name in plan.partition.attributes)
        and all(_is_usual(schema.field(name).type) for name in plan.partition.attributes)
    )


def _is_usual(kind: Any) -> bool:
    """Check whether values can be keys, which is asked where they get their numbers."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = pa.types.is_integer, pa.types.is_string, pa.types.is_temporal
    return any(test(plain) for test in tests)


def list_one_event(job: Job, table: pa.Table) -> pa.Table:
    """List the events of a sorted table that are matches by themselves."""
    columns = Columns(table)
    (final,) = job.templates[0].finals
    variable = job.variables.index(job.templates[0].states[final.state].variable)
    fits = job.bits_of(columns) & (1 << variable) != 0
    for name in job.plan.partition.attributes:
        column = columns.arrow(name)
        if column.null_count:
            fits &= np.asarray(column.is_valid())
    rows = np.flatnonzero(fits)[: job.plan.output.limit].astype(np.int32)
    found = Aligned(rows[np.newaxis], np.array([variable], np.int8))
    return build_matches(job, found, np.zeros(0, np.int64), columns, 1)
