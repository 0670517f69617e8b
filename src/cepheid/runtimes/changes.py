"""Run a query over a finished changelog: its current table takes the place of events (§18.5)."""

from __future__ import annotations

from os import fspath
from typing import Any

import pyarrow as pa

from cepheid.events.arriving import as_table
from cepheid.events.files import find_files, read_all
from cepheid.events.text_times import timed_table
from cepheid.jobs.changes.asked import Changes, check_streams
from cepheid.jobs.changes.current import current_table
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.ordering import ordered
from cepheid.options import Held, holder_of, unused
from cepheid.runtimes.local import CompiledQueryLike


def current_events(compiled: CompiledQueryLike, events: Any, spark: Any, changes: Changes) -> Any:
    """Return the current table of a changelog: a table or, on Spark, a DataFrame.

    Raises
    ------
    OptionError
        E591 for an event store.
    DataError
        E505, E583 and those of times.
    """
    check_streams(compiled.plan)
    held = holder_of(events)
    if held is Held.STORE:
        why = "an event store has events, and no operations"
        unused("changes", why, "leave it out, or read the changelog from files")
    if held is Held.FRAME or spark is not None:
        from cepheid.runtimes.spark.changes import current_frame, frame_of

        frame = frame_of(events, spark, compiled.times)
        return current_frame(frame, changes, compiled.plan)
    if held is Held.FILES:
        tables = list(read_all(find_files(fspath(events)), None, compiled.times))
        table = pa.concat_tables(tables, promote_options="permissive")
    else:
        table = timed_table(as_table(events), compiled.times)
    now = current_table(table, changes, compiled.plan.time)
    plan = compiled.with_schema(now.schema).plan
    # Changes come in any order of time, so nobody is told that events are sorted.
    return ordered(now, plan) if local_job(plan).in_order else now
