"""Tests GRETA's loop against the oracle, and the streams and tables of the edge benchmarks."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from benchmarks import edge_methods, edge_streams, edge_tables
from benchmarks.baselines import greta_edges

from cepheid.language.parser import parse
from cepheid.testing import evaluate

FALLING = "RETURN COUNT(*) PATTERN A+ WHERE A.price > NEXT(A).price"


@pytest.mark.parametrize("loop", [greta_edges.PLAIN, greta_edges.VECTORISED])
def test_both_loops_agree_with_the_oracle(loop: greta_edges.Loop) -> None:
    for order in permutations([1.0, 2.0, 2.0, 5.0]):
        prices = np.array(order)
        events = [{"ts": i, "type": "A", "price": price} for i, price in enumerate(order)]
        (row,) = evaluate(parse(FALLING), events)
        assert loop(prices, prices) == row["count"]


@pytest.mark.parametrize("percent", [10, 30, 50, 70, 90])
def test_factors_select_the_share_of_pairs_that_they_should(percent: int) -> None:
    prices = edge_streams.prices(2_000).prices
    held = prices[:, None] * edge_methods._factor(percent) < prices[None, :]
    assert held.mean() == pytest.approx(percent / 100, abs=0.02)


def test_cluster_has_the_distributions_of_the_paper() -> None:
    table = edge_streams.cluster(30_000)
    assert table["ts"].cast(pa.int64()).to_numpy().max() == 9_000_000
    assert set(table["mapper"].to_pylist()) == set(range(11))
    assert table["load"].to_numpy().mean() == pytest.approx(100, abs=1)


def test_queries_have_ten_variations_each() -> None:
    assert all(len(edge_methods.variations(key)) == 10 for key in edge_tables.QUERIES)


def test_missing_data_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEPHEID_DATA", raising=False)
    table, found = edge_tables.run("q1", shrink=1, limit_s=1.0, tell=lambda _: None)
    assert "set CEPHEID_DATA" in str(table.title)
    assert not found


def test_logarithms_of_rows_are_added_as_numbers() -> None:
    table = edge_streams.prices(3).table().append_column("log2_count", [[1.0, 2.0, -math.inf]])
    assert edge_methods.log2_total(table) == pytest.approx(math.log2(6))
