"""The bytes that Cepheid keeps: a query and a table in, the size of a live query's state out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import cepheid
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.spark.schema import result_schema_of

WINDOW = "WITHIN 30000 days SLIDE 30000 days"
"""One window that stays open."""


def state_bytes(text: str, table: pa.Table) -> int:
    """Return the size of the state of a query whose one window holds all events so far."""
    plan = cepheid.query(f"{text} {WINDOW}").with_schema(table.schema).plan
    work = Work.of(plan, table.schema, result_schema_of(plan, table.schema), 1, delay=0)
    latest = int(np.asarray(table["ts"])[-1].astype("datetime64[us]").astype(np.int64))
    data, _ = turn(live_job(work), work, None, [table], latest)
    return len(data)
