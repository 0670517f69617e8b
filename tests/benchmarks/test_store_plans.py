"""The benchmark of plans over stores: all plans of a query agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmarks.store_figures import filled, plans_table, strategies_table
from benchmarks.store_plans import AskedRows, AskedTrends, random_strategies, shares
from benchmarks.store_queries import DEVIATIONS, events, random_query

import cepheid


def test_events_follow_a_line() -> None:
    (table,) = events(5_000)
    line = np.arange(5_000) / 5_000
    assert np.array_equal(table["a1"].to_numpy(), line)
    for name in DEVIATIONS:
        values = table[name].to_numpy()
        assert ((values >= 0) & (values < 1)).all()


def test_all_plans_of_random_queries_agree(tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path)
    filled(store, 30_000)
    found = random_strategies(store, (2,), 2, "a2")[2]
    assert 0.0 <= shares(found) <= 1.0
    assert all(f.best <= f.chosen for f in found)
    rows: list[dict[str, object]] = []
    shown = strategies_table("all", "symbols", {"2": found}, rows)
    assert (shown.row_count, len(rows)) == (1, 4)
    query = random_query(np.random.default_rng(1), 3, "a3")
    table, plans = plans_table("one", AskedRows(store, query.text()), "rows")
    assert (table.row_count, len(plans)) == (4, 7)
    trend = cepheid.query(
        "RETURN COUNT(*) PATTERN SEQ(E a, E b) WHERE a.a5 > 0.99 AND b.a2 < 0.1 WITHIN 300 us"
    )
    table, plans = plans_table("other", AskedTrends(store, trend), "trends")
    assert len(plans) == 3
