"""Rows of rules as alerts: the same columns whatever rules there are, and values as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.jobs.derived import TIME
from cepheid.kinds.workload.alert_limits import DUPLICATE, OVER_LIMIT, SHOWN, WHY, Throttle
from cepheid.kinds.workload.json_rows import json_rows
from cepheid.kinds.workload.rule_records import Put

SUPPRESSED = "suppressed"
RULE = "rule"


def alert_schema(time: pa.DataType, tick_ns: int) -> pa.Schema:
    """Build the schema of alerts; their times are of the type of the events' times."""
    kind = time_kind(time, tick_ns)
    texts = [(name, pa.string()) for name in ("owner", "tags", "severity")]
    times = [(name, kind) for name in ("at", "window_start", "window_end")]
    fields: list[Any] = [
        (RULE, pa.string()),
        ("variant", pa.string()),
        ("version", pa.int64()),
        *texts,
        *times,
        ("key", pa.string()),
        ("values", pa.string()),
    ]
    return pa.schema(fields)


def time_kind(column: pa.DataType, tick_ns: int) -> pa.DataType:
    """Choose the type of the times of alerts; that of the events, as exact as ticks."""
    if pa.types.is_integer(column):
        return pa.int64()
    return pa.timestamp("ns" if tick_ns == 1 else "us", getattr(column, "tz", None))


class Limits:
    """The limits of a rule's alerts, with what went through before."""

    def __init__(self, put: Put, recent: tuple[dict[str, list[int]], ...] = ({}, {})) -> None:
        tick_ns = put.planned.tick_ns
        limits = ((put.deduplicate, DUPLICATE), (put.rate_limit, OVER_LIMIT))
        self._throttles = [
            (fate, None if limit is None else Throttle(limit, tick_ns, before))
            for (limit, fate), before in zip(limits, recent, strict=True)
        ]

    def recent(self, until: int) -> tuple[dict[str, list[int]], ...]:
        """Collect what alerts at or after a time depend on."""
        return tuple({} if one is None else one.recent(until) for _, one in self._throttles)

    def fates(self, rows: pa.Table, times: Any) -> Any:
        """Decide which rows are alerts."""
        fates = np.full(len(rows), SHOWN, np.int8)
        for fate, throttle in self._throttles:
            if throttle is not None:
                throttle.suppress(rows, times, fates, fate)
        return fates


def alerts_of(
    put: Put, limits: Limits, rows: pa.Table, until: int, schema: pa.Schema
) -> tuple[pa.Table, dict[str, int]]:
    """Convert rows of a rule that are final at a watermark to alerts.

    Returns
    -------
    tuple
        The alerts, in the order of their times, and how many rows are suppressed, by the reason.
    """
    timing = put.timing
    times = put.dated.read(rows, until)
    shown = rows.drop_columns([n for n in timing.hidden if _is_hidden(n, rows)])
    suppressed: dict[str, int] = {}
    if times is not None:
        fates = limits.fates(shown, times)
        for fate in (DUPLICATE, OVER_LIMIT):
            if count := int(np.count_nonzero(fates == fate)):
                suppressed[str(WHY[fate])] = count
        order = np.flatnonzero(fates == SHOWN)
        order = order[np.argsort(times[order], kind="stable")]
        shown, times = shown.take(order), times[order]
    return _table(put, shown, times, schema), suppressed


def _is_hidden(name: str, rows: pa.Table) -> bool:
    """Check whether a column only tells the time, or is a part of another one."""
    return name in rows.column_names and (name.startswith(TIME) or "." in name)


def _table(put: Put, rows: pa.Table, times: Any, schema: pa.Schema) -> pa.Table:
    count = len(rows)
    kind = schema.field("at").type
    same = {
        RULE: put.rule,
        "variant": put.variant,
        "version": put.version,
        "owner": put.owner or None,
        "tags": ",".join(put.tags) or None,
        "severity": put.severity or None,
    }
    columns: dict[str, Any] = {
        name: pa.repeat(pa.scalar(value, schema.field(name).type), count)
        for name, value in same.items()
    }
    columns["at"] = (
        pa.nulls(count, kind) if times is None else pa.array(times, pa.int64()).cast(kind)
    )
    for name in ("window_start", "window_end"):
        found = name in rows.column_names and pa.types.is_temporal(kind) == pa.types.is_temporal(
            rows.schema.field(name).type
        )
        columns[name] = rows[name].cast(kind) if found else pa.nulls(count, kind)
    columns["key"] = pa.nulls(count, pa.string())
    if put.keys:
        columns["key"] = json_rows(rows.select(list(put.keys)))
    columns["values"] = json_rows(rows)
    return pa.table([columns[name] for name in schema.names], schema=schema)
