"""Several bounds of one event in one order: the same pairs, and the rows of the oracle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import numbered, same_rows

from cepheid.api import query
from cepheid.arrays.columns import Columns
from cepheid.errors import Span
from cepheid.events.comparisons import COMPARE
from cepheid.kinds.trend.look_back.common_order import in_one_order
from cepheid.kinds.trend.look_back.relations import Comparison, read_relations
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import streams

KEYS = st.lists(st.integers(-3, 3), min_size=5, max_size=5)
SHAPES = {
    "same": lambda keys: keys,
    "double": lambda keys: 2 * keys,
    "coarse": lambda keys: keys // 2,
    "turned": lambda keys: -3 * keys,
    "other": lambda keys: keys**2,
}


def _named(name: str) -> tree.Attribute:
    span = Span(0, 0)
    return tree.Attribute(
        span=span,
        variable=tree.Name(span=span, text="a"),
        attribute=tree.Name(span=span, text=name),
    )


def _accepted(comparisons: tuple[Comparison, ...]) -> np.ndarray:
    """Return for each pair of events whether all comparisons hold."""
    found = np.ones((5, 5), np.bool_)
    for one in comparisons:
        held = COMPARE[one.operator](one.prev_keys[:, None], one.next_keys[None, :])
        if one.prev_valid is not None:
            held &= one.prev_valid[:, None]
        found &= held
    return found


@given(
    KEYS,
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.tuples(st.sampled_from([*SHAPES]), st.sampled_from([*COMPARE]), KEYS), max_size=4),
)
def test_bounds_in_one_order_accept_the_same_pairs(
    keys: list[int], valid: list[bool], drawn: list[tuple[str, str, list[int]]]
) -> None:
    assume(drawn)
    base, known = np.array(keys, np.int64), None if all(valid) else np.array(valid)
    comparisons = tuple(
        Comparison(operator, _named(shape), SHAPES[shape](base), known, np.array(later), None)
        for shape, operator, later in drawn
    )
    assert np.array_equal(_accepted(in_one_order(comparisons)), _accepted(comparisons))


BANDS = [
    "A.price - 1.5 < NEXT(A).price AND NEXT(A).price < A.price + 0.7",
    "NEXT(A).price BETWEEN A.price - 1 AND A.price + 1",
    "NEXT(A).price > -A.price AND NEXT(A).price <= 2 * A.price + 3",
    "NEXT(A).price > A.price - 2 AND NEXT(A).key >= A.key AND NEXT(A).price <= A.price + 2",
]


@pytest.mark.parametrize("band", BANDS)
@given(drawn=streams({"price": "double", "key": "string"}, events_max=7))
def test_bands_give_the_rows_of_the_oracle(band: str, drawn: list[dict[str, object]]) -> None:
    assume(any("key" in event for event in drawn) and any("price" in event for event in drawn))
    text = f"RETURN COUNT(*), SUM(A.price) PATTERN SEQ(A+, B?) WHERE {band}"
    table = numbered(drawn)
    compiled = query(text, schema=table.schema)
    wanted = evaluate(compiled.tree, drawn)
    for one in (compiled, compiled.with_evaluator("pairwise")):
        assert same_rows(run_table(one.plan, table).to_pylist(), wanted)


def test_a_band_is_one_range_of_ranks() -> None:
    table = pa.table(
        {"ts": range(50), "type": ["A"] * 50, "price": [n * 7 % 13 / 3 for n in range(50)]}
    )
    text = "RETURN COUNT(*) PATTERN A+ WHERE {}"
    for where, orders in ((BANDS[0], 1), (BANDS[1], 1), (BANDS[2], 1)):
        plan = TrendPlan.of(query(text.format(where), schema=table.schema).plan)
        (relation,) = read_relations(plan.edges, Columns(table))
        assert len({one.prev for one in relation.comparisons}) == orders
