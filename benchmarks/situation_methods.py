"""Aggressive drivers and disconnected patterns by other means: a table in, the matches out.

iseq     situations as we derive them, joined when they have ended (baselines/interval_sequence.py)
phases   a pattern for each situation, then a pattern over situations: the first straw man
points   one pattern over events, with the conditions of overlapping situations: the second one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.baselines.interval_sequence import count_matches
from numpy.typing import NDArray

import cepheid
from cepheid.plans.plan import Plan
from cepheid.plans.situations import inverse_of

Run = Callable[[], dict[str, Any]]

PHASE = """
    SELECT {key} s, ts, '{name}' AS type FROM e MATCH_RECOGNIZE (
        {partition} ORDER BY ts MEASURES FIRST(S.ts) AS s, X.ts AS ts
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST X
        PATTERN (S+ X) DEFINE S AS {condition}, X AS NOT ({condition})
    )"""

DRIVERS_PHASES = """
    RETURN a.s AS first PATTERN SEQ(A a, B b, C c) WHERE [car]
    AND a.s < b.s AND b.s <= a.ts AND b.s < c.s AND c.s <= b.ts AND LAST(a).ts < c.s
    AND c.ts - LAST(a).s <= {within} WITHIN {within} us
"""
DRIVERS_POINTS = """
    SELECT * FROM e MATCH_RECOGNIZE (
        PARTITION BY car ORDER BY ts MEASURES FIRST(S.ts) AS first, LAST(X.ts) AS ts
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (S A* AB* B+ BC* C+ X)
        DEFINE S AS accel > {up} AND NOT speed > {fast}
                AND NOT coalesce(PREV(accel) > {up}, FALSE),
            A AS accel > {up} AND NOT speed > {fast},
            AB AS accel > {up} AND speed > {fast},
            B AS speed > {fast} AND NOT accel > {up} AND NOT accel < {down},
            BC AS speed > {fast} AND accel < {down},
            C AS accel < {down} AND NOT speed > {fast},
            X AS NOT accel < {down} AND ts - S.ts <= {within}
    )"""


def waits(table: pa.Table, listing: str, plan: Plan) -> Run:
    """Return the matcher that waits for ends; ``listing`` lists the situations of the pattern."""
    assert plan.situations is not None, "a query about situations"
    count = len(plan.situations.definitions)
    masks = np.zeros((count, count), np.int64)
    for constraint in plan.situations.constraints:
        masks[constraint.left, constraint.right] = constraint.mask
        masks[constraint.right, constraint.left] = inverse_of(constraint.mask)
    orders = np.array([_follow(masks, first) for first in range(count)])
    within = plan.situations.within or 0
    listed = cepheid.query(listing)

    def run(events: pa.Table = table) -> dict[str, Any]:
        arrays = _arrange(listed.run(events), [d.name for d in plan.situations.definitions])
        found, _ = count_matches(*arrays, masks, orders, within)
        return {"matches": found}

    run(table.slice(0, 1000))
    return run


def _follow(masks: NDArray[np.int64], first: int) -> list[int]:
    """Return the definitions that constraints lead to, one after the other."""
    order = [first]
    while len(order) < len(masks):
        linked = [n for n in range(len(masks)) if n not in order and masks[n, order].any()]
        order.append((linked or [n for n in range(len(masks)) if n not in order])[0])
    return order[1:]


def _arrange(listed: pa.Table, names: list[str]) -> tuple[NDArray[np.int64], ...]:
    """Return situations by definition and partition, and as they arrive."""
    kind = np.searchsorted(names, np.asarray(listed["situation"]).astype(str))
    ts, te = np.asarray(listed["ts"]), np.asarray(listed["te"])
    key = np.zeros(len(ts), np.int64)
    if "car" in listed.column_names:
        key = np.unique(np.asarray(listed["car"]), return_inverse=True)[1]
    keys = int(key.max(initial=0)) + 1
    order = np.lexsort([te, key, kind])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    flat = np.searchsorted((kind * keys + key)[order], np.arange(len(names) * keys))
    arrival = np.lexsort([te, key])
    return (
        ts[order], te[order], flat.reshape(len(names), keys), place[arrival], kind[arrival],
        key[arrival],
    )  # fmt: skip


def phases(table: pa.Table, conditions: dict[str, str], query: str, *, keyed: bool) -> Run:
    """Return two phases: a sequential pattern for each situation, then one over situations."""
    words = {"key": "car,", "partition": "PARTITION BY car"} if keyed else {}
    words = words or {"key": "", "partition": ""}
    texts = [PHASE.format(name=n, condition=c, **words) for n, c in conditions.items()]
    second = cepheid.query(query)

    def run(events: pa.Table = table) -> dict[str, Any]:
        parts = [cepheid.sql(text, tables={"e": events}) for text in texts]
        rows = pa.concat_tables(parts)
        return {
            "matches": len(second.run(rows.take(np.argsort(np.asarray(rows["ts"]), kind="stable"))))
        }

    run(table.slice(0, 1000))
    return run


def points(table: pa.Table, query: str) -> Run:
    """Return one sequential pattern over events."""

    def run(events: pa.Table = table) -> dict[str, Any]:
        return {"matches": len(cepheid.sql(query, tables={"e": events}))}

    run(table.slice(0, 1000))
    return run
