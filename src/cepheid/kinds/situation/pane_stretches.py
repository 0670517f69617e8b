"""Stretches of the panes of one bucket: cut apart, merged when their rows have left, dropped.

A bucket has some panes of a stream and not those between them. So stretches end with their pane,
and only those of one pane are merged.

    panes    |  bucket 1   |  bucket 2   |  bucket 1   |
    A holds      --------------------------------          one situation
    stretches    ---------- -------------- -------         one for every pane, put together later

A stretch whose rows have left is needed for what later matches show of a situation: its start, its
end, its aggregates, and whether it has lasted long enough. So neighbours of equal conditions become
one, or two if a definition has a minimum duration: the second one begins with the last point at
which a situation may have lasted long enough, and that is all that later matches ask for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.stretches import (
    BITS,
    TIME,
    TOTAL,
    VALUE,
    cut_by,
    stretches_to_table,
)


def cut_panes(job: SituationJob, pane: int, events: pa.Table) -> pa.Table:
    """Compute the stretches of events in time order; none is in two panes."""
    columns = Columns(events)
    times = read_times(columns, job.plan.time)
    panes = times // pane
    number = np.cumsum(np.diff(panes, prepend=panes[:1]) != 0)
    count = int(number[-1]) + 1 if len(number) else 0
    stretches = cut_by(job, number, count, columns, times)
    whole = stretches._replace(key=np.zeros(len(stretches.ts), np.int64))
    return stretches_to_table(KeyTable(()), whole, events.schema)


def merge_stretches(job: SituationJob, pane: int, table: pa.Table) -> pa.Table:
    """Merge neighbours of one pane for which the same conditions hold."""
    times, bits = np.asarray(table[TIME]), np.asarray(table[BITS])
    if len(times) < 2:
        return table
    panes = times // pane
    begins = np.ones(len(times), np.bool_)
    begins[1:] = (panes[1:] != panes[:-1]) | (bits[1:] != bits[:-1])
    if len(job.lasting):
        begins[:-1] |= begins[1:]  # The last one of its neighbours stays apart.
        begins[-1] = True
    if begins.all():
        return table
    first = np.flatnonzero(begins)
    return _merged(job, table, first, np.append(first[1:], len(times)) - 1)


def _merged(
    job: SituationJob, table: pa.Table, first: NDArray[np.int64], last: NDArray[np.int64]
) -> pa.Table:
    """Merge stretches from the first one up to the last one of each group."""
    columns: dict[str, Any] = {name: table[name].take(first) for name in (TIME, BITS)}
    for place, measure in enumerate(job.measures):
        add = np.minimum if measure.what == "least" else np.add
        totals = np.asarray(table[f"{TOTAL}{place}"])
        columns[f"{TOTAL}{place}"] = pa.array(add.reduceat(totals, first))
    for place, end in enumerate(job.ends):
        rows = last if end.last else first
        columns[f"{VALUE}{place}"] = table[f"{VALUE}{place}"].take(rows)
    return pa.table(columns)


def since_lead_in(table: pa.Table, begin: int) -> pa.Table:
    """Select the stretches from a time on, and the last one before it.

    That one tells whether a situation at this time has begun earlier. Of all buckets, the latest
    such stretch is the last one of the stream.
    """
    place = int(np.searchsorted(np.asarray(table[TIME]), begin))
    return table.slice(max(place - 1, 0))
