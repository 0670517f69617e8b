"""Bodies that only the interpreter runs give the bits of the loops and of compiled kernels."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import supported, table_of
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.kernels import prefix_arrays, ranks
from cepheid.kernels.tiers import Kernel, Tier, forced
from cepheid.runtimes.local import run_table
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # Compiles every kernel that a query may need.


@contextmanager
def bodies(*, shortcuts: bool) -> Iterator[None]:
    """Interpret kernels, with their shortcuts or with loops only."""
    with ExitStack() as stack:
        for kernel in Kernel.registry.values():
            stack.enter_context(mock.patch.object(kernel, "_plain", None))
            if not shortcuts:
                stack.enter_context(mock.patch.object(kernel, "shortcut", ""))
        # Loops would be faster for so few events.
        stack.enter_context(mock.patch.object(prefix_arrays, "EVENTS_A_STEP", 0))
        stack.enter_context(forced(Tier.INTERPRET))
        yield


@contextmanager
def watching(name: str) -> Iterator[list[bool]]:
    """Interpret kernels; collect for each call of a kernel's shortcut whether it answered."""
    kernel, answered = Kernel.registry[name], list[bool]()
    module = importlib.import_module(f"cepheid.kernels.{kernel.shortcut}")
    shortcut = getattr(module, kernel.__name__)

    def watched(*arguments: Any) -> Any:
        result = shortcut(*arguments)
        answered.append(result is not NotImplemented)
        return result

    with mock.patch.object(module, kernel.__name__, watched), bodies(shortcuts=True):
        yield answered


def answer(text: str, table: pa.Table) -> object:
    """Run a query in small batches; return its bits, but not those of the sign of a NaN.

    Processors and compilers choose that sign, also in loops that are interpreted.
    """
    found = bits(run_table(query("RETURN " + text).plan, table, batch_rows=64))
    return [(name, [NAN if x == MINUS_NAN else x for x in column]) for name, column in found]


NAN, MINUS_NAN = np.float64(math.nan).tobytes(), (-np.float64(math.nan)).tobytes()


USUAL = (0.0, -0.0, 1.5, -2.25, 0.1, 1e-3, 7e5, 3.0)
UNUSUAL = (math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-310, 5e-324, 2.0**-301)
PARTS = "COUNT(*), SUM(a.x), AVG(a.x), MIN(a.x), MAX(a.x)"
SUMS = "COUNT(*), SUM(a.x), AVG(a.x)"
SLIDING = "WITHIN 9 us SLIDE 3 us"

QUERIES = {
    "falling": ("prefix_wide.run_wide", f"{PARTS} PATTERN A a+ WHERE [key] AND a.x > NEXT(a).x"),
    "rising": ("prefix_wide.run_wide", f"{PARTS} PATTERN A a+ WHERE a.x <= NEXT(a).x"),
    "equal": ("prefix_wide.run_wide", f"{PARTS} PATTERN A a+ WHERE a.x = NEXT(a).x"),
    "unequal": ("prefix_wide.run_wide", f"{PARTS} PATTERN A a+ WHERE a.x <> NEXT(a).x"),
    "two states": (
        "prefix_wide.run_wide",
        f"{PARTS} PATTERN SEQ(A a+, B b, A c+) WHERE a.x < b.x AND c.x > NEXT(c).x",
    ),
    "barred": (
        "prefix_wide.run_wide",
        f"{PARTS} PATTERN SEQ(NOT C c, A a+) WHERE a.x > NEXT(a).x {SLIDING}",
    ),
    "next-match": (
        "next_match.run_next_segments",
        f"{SUMS} PATTERN SEQ(A a, B b+) SEMANTICS next "
        "WHERE [key] AND b.x > a.x AND b.x < NEXT(b).x",
    ),
    "next-match, sliding": (
        "next_match.run_next_segments",
        f"{SUMS} PATTERN SEQ(A a+, B b, A c+) SEMANTICS next "
        f"WHERE a.x <> NEXT(a).x AND a.x < b.x {SLIDING}",
    ),
    "next-match, two predicates": (
        "next_match.run_next_segments",
        f"{SUMS} PATTERN SEQ(A a+, B b) SEMANTICS next WHERE a.x < NEXT(a).x AND a.y > NEXT(a).y",
    ),
    "sliding": ("panes.aggregate_panes", f"{SUMS} PATTERN SEQ(A a+, B b) {SLIDING}"),
    "sliding, next": (
        "panes.aggregate_panes",
        f"{SUMS} PATTERN SEQ(A a+, B b) SEMANTICS next WHERE [key] {SLIDING}",
    ),
    "sliding, exact": (
        "panes.aggregate_panes",
        f"COUNT(*), SUM(a.y) PATTERN SEQ(A a+, B b) {SLIDING} NUMBERS exact",
    ),
    "negation": (
        "linear.aggregate_linear",
        f"{SUMS} PATTERN SEQ(A a+, NOT C c, B b) WHERE [key] WITHIN 40 us SLIDE 40 us",
    ),
    "next": (
        "linear.aggregate_linear",
        f"{SUMS} PATTERN SEQ(A a+, B b) SEMANTICS next WHERE [key] WITHIN 20 us SLIDE 20 us",
    ),
    "contiguous": (
        "linear.aggregate_linear",
        f"{SUMS} PATTERN SEQ(A a+, B b) SEMANTICS contiguous WITHIN 40 us SLIDE 40 us",
    ),
}  # fmt: skip
"""The kernel whose other body a query runs, and the query."""


def stream(seed: int, length: int, values: tuple[float, ...], ties: float) -> pa.Table:
    """Draw events: types, two keys, values, and times of which some are equal."""
    draw = np.random.default_rng(seed)
    steps = np.where(draw.random(length) < ties, 0, draw.integers(1, 3, length))
    mixed = np.where(
        draw.random(length) < 0.5, draw.choice(values, length), draw.normal(size=length)
    )
    columns: dict[str, Any] = {
        "ts": np.cumsum(steps),
        "type": draw.choice(["A", "A", "A", "B", "C"], length),
        "key": draw.choice(["k", "l"], length),
        "x": mixed,
        "y": draw.integers(-5, 6, length),
    }
    return pa.table(columns)


@settings(max_examples=40)
@given(cases(), st.integers(1, 8))
def test_the_loops_give_the_same_bits_to_random_queries(case: Case, rows: int) -> None:
    assume(case.events and supported(query(case.query, schema=case.schema)))
    plan, table = query(case.query, schema=case.schema).plan, table_of(case.events)
    with bodies(shortcuts=True):
        found = bits(run_table(plan, table, batch_rows=rows))
    with bodies(shortcuts=False):
        assert found == bits(run_table(plan, table, batch_rows=rows))


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 80),
    values=st.sampled_from([USUAL, UNUSUAL, USUAL + UNUSUAL]),
    ties=st.sampled_from([0.0, 0.3]),
)
def test_the_loops_give_the_same_bits(
    name: str, seed: int, length: int, values: tuple[float, ...], ties: float
) -> None:
    text, table = QUERIES[name][1], stream(seed, length, values, ties)
    with bodies(shortcuts=True):
        found = answer(text, table)
    with bodies(shortcuts=False):
        assert found == answer(text, table)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    ("length", "values"), [(60, USUAL), (60, UNUSUAL), (300, USUAL), (900, USUAL)]
)
def test_compiled_kernels_give_the_same_bits(
    name: str, length: int, values: tuple[float, ...]
) -> None:
    # 300 events have far more than 2^53 matches, and 900 more than doubles reach.
    kernel, text = QUERIES[name]
    table = stream(7, length, values, 0.2)
    with watching(kernel) as answered:
        found = answer(text, table)
    assert any(answered) or values is UNUSUAL or length == 900
    with forced(Tier.COMPILE):
        assert found == answer(text, table)


KEYS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=30)


@given(
    keys=KEYS, cuts=st.lists(st.integers(0, 30), max_size=4), seed=st.integers(0, 99),
    operator=st.sampled_from(sorted(ranks.OPERATORS.values())), small=st.booleans(),
    same=st.booleans(),
)  # fmt: skip
def test_ranks_are_the_same(
    keys: list[tuple[int, int]], cuts: list[int], seed: int, operator: int, *, small: bool,
    same: bool,
) -> None:  # fmt: skip
    n, draw = len(keys), np.random.default_rng(seed)
    own = np.array([pair[0 if small else 1] for pair in keys], np.int64)
    other = own if same else draw.permutation(own)
    ptr = np.array([0, *sorted(min(cut, n) for cut in cuts), n])
    valid, asking = draw.random(n) < 0.8, draw.random(n) < 0.8
    words = (np.zeros((2, n), np.int64), np.zeros((2, n), np.int32), np.zeros((3, n), np.uint64))
    filled: list[Any] = []
    for run in ("interpret", "function"):
        out = [np.full(n, 99, np.int32) for _ in range(4)]
        placed, order = np.full((2, n), 99, np.int32), np.full(n, 99, np.int64)
        second = valid if same else asking
        with np.errstate(all="ignore"):
            getattr(ranks.rank_segments, run)(
                ptr, own, valid, other, asking, operator, *words, *out
            )
            if operator != ranks.UNEQUAL:
                getattr(ranks.place_segments, run)(
                    ptr, own, valid, other, second, operator, *words, same, placed
                )
            widest = [
                getattr(ranks.order_rows, run)(ptr, own // 2, together, order)
                for together in (False, True)
            ]
        arrays: list[Any] = [*out, placed, order]
        filled.append([*(array.tolist() for array in arrays), widest])
    assert filled[0] == filled[1]
