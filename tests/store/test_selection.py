"""The choice of indexes is the best of all choices, or next to it, and found without trying all."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest

from cepheid.store import selection
from cepheid.store.cost import (
    StreamSize,
    SymbolCost,
    chain_length,
    expected_groups,
    query_cost,
)
from cepheid.store.rates import Rates
from cepheid.store.selection import choose_symbols, costs_of

STREAM = StreamSize(1_000, 1_000, 1.0, 4_096_000, 300, 0, 4_096_000, 3, 1)


def random_symbols(random: np.random.Generator, count: int) -> list[list[SymbolCost]]:
    found = []
    block = 1
    for place in range(count):
        share = random.random() * 0.1 * random.choice([1.0, 0.1, 0.001])
        events = int(share * STREAM.rows)
        block += int(random.integers(0, 2))
        found.append([SymbolCost(events, events, place == 0, place == count - 1, 1, block)])
    return found


@pytest.mark.parametrize("seed", range(25))
def test_the_best_choice_is_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    symbols = random_symbols(random, int(random.integers(1, 10)))
    everything = product(*([None, 0] for _ in symbols))
    picked = [tuple((n, w) for n, w in enumerate(o) if w is not None) for o in everything]
    costs = [query_cost(costs_of(symbols, p), STREAM, Rates()) for p in picked]
    chosen = choose_symbols(symbols, STREAM, Rates())
    assert query_cost(costs_of(symbols, chosen), STREAM, Rates()) <= (
        1.3 if len(symbols) > 7 else 1.0
    ) * min(costs)


def test_few_choices_are_looked_at() -> None:
    symbols = random_symbols(np.random.default_rng(1), 16)
    with patch.object(selection, "expected_groups", side_effect=expected_groups) as counted:
        choose_symbols(symbols, STREAM, Rates())
    assert counted.call_count < 5_000 < 2**16
    assert choose_symbols([[], []], STREAM, Rates()) == ()


@pytest.mark.parametrize("rates", [[1.0], [2.0, 0.5], [1.0, 1.0, 3.0]])
def test_chains_are_as_long_as_random_ones(rates: list[float]) -> None:
    random = np.random.default_rng(5)
    lengths = sum(random.exponential(1 / rate, 200_000) for rate in rates)
    assert isinstance(lengths, np.ndarray)
    fits = lengths < 2.0
    found = chain_length(rates, 2.0)
    assert found.fits == pytest.approx(float(fits.mean()), abs=0.01)
    assert found.mean == pytest.approx(float(lengths[fits].mean()), abs=0.02)
