"""Matches of a live stream: events up to a watermark in, the matches that are complete by then out.

A match leaves when the watermark passes its last event or, if it depends on its window, the end of
that window. The matches of one micro-batch travel as one value.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cepheid.engine.job import Job
from cepheid.engine.listing import advance_matches, empty_matches, step_matches
from cepheid.engine.step import PartitionState
from cepheid.errors import DataError, Diagnostic
from cepheid.runtime.local_jobs import LOOK_BACK_ROWS
from cepheid.runtime.ordering import slices

MATCHES_MAX = 5_000_000
"""Matches of one bucket in one micro-batch."""


def list_until(
    job: Job, state: PartitionState, events: pa.Table, until: int, schema: pa.Schema
) -> tuple[PartitionState, pa.Table]:
    """Return the matches that are complete at a time, after events before it.

    Raises
    ------
    DataError
        E513 if there are more than MATCHES_MAX.
    """
    found = [empty_matches(job, schema)]
    before = state.listed
    for part in slices(events, LOOK_BACK_ROWS):
        state, tables = step_matches(job, state, part)
        found += _counted(tables, before, state)
    state, tables = advance_matches(job, state, until)
    found += _counted(tables, before, state)
    return state, pa.concat_tables(found)


def _counted(tables: Iterator[pa.Table], before: int, state: PartitionState) -> Iterator[pa.Table]:
    for table in tables:
        if state.listed - before > MATCHES_MAX:
            message = f"more than {MATCHES_MAX:,} matches are complete in one micro-batch"
            helps = (
                "make the window shorter, or ask for more in WHERE",
                "GROUP-BY spreads the matches over several tasks",
            )
            raise DataError([Diagnostic("E513", message, helps=helps)])
        yield table
