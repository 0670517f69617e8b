"""One variable that rises or falls under skip-till-next-match: a stack gives the bits of sets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.kernels import next_chain, next_match
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.look_back import evaluate as evaluate_module
from cepheid.kinds.trend.look_back import next_stack
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(900)  # Compiles kernels.

PREDICATES = {
    "A.price > NEXT(A).price": True,
    "A.price >= NEXT(A).price": True,
    "A.price < NEXT(A).price": True,
    "A.price <= NEXT(A).price": True,
    # Pending rows of other values stay between those that are taken.
    "A.price > NEXT(A).price * 2": None,
    "A.price + 1 > NEXT(A).price": None,
    "A.price - 1 < NEXT(A).price": None,
    "A.price > NEXT(A).volume": None,
    "A.price = NEXT(A).price": None,
    "A.price <> NEXT(A).price": False,
}
"""Edge predicates, and whether a stack answers; None if it depends on the values."""

AGGREGATES = "COUNT(*), SUM(A.price), AVG(A.price), MIN(A.price), MAX(A.volume)"
WINDOWS = ["", "WITHIN 9 us SLIDE 9 us", "WITHIN 9 us SLIDE 3 us"]
COUNTED = ("COUNT(*), MIN(A.price), MAX(A.volume)", AGGREGATES)
PRICES = st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 0.1, -1.0, None, math.nan])


@contextmanager
def interpreted(name: str, replaced: Any) -> Iterator[None]:
    """Interpret the loop over segments, with another body of a kernel that it calls."""
    loop, inner = next_match.run_next_segments, getattr(next_chain, name)
    with (
        mock.patch.object(loop, "shortcut", ""),
        mock.patch.object(loop, "_plain", None),
        mock.patch.object(inner, "_plain", replaced),
        mock.patch.object(evaluate_module, "answer_by_stack", return_value=None),
        forced(Tier.INTERPRET),
    ):
        yield


@contextmanager
def watching() -> Iterator[list[bool]]:
    """Collect whether the stack answered."""
    answered: list[bool] = []
    run = next_chain.run_chain.plain

    def watched(*arguments: Any) -> bool:
        answered.append(run(*arguments))
        return answered[-1]

    with interpreted("run_chain", watched):
        yield answered


@contextmanager
def counting_alone() -> Iterator[list[bool]]:
    """Collect whether the stack of values answered, without the other kernels."""
    answered: list[bool] = []

    def watched(*arguments: Any) -> Any:
        found = next_stack.answer_by_stack(*arguments)
        answered.append(found is not None)
        return found

    with mock.patch.object(evaluate_module, "answer_by_stack", watched):
        yield answered


def without_stack() -> Any:
    """Return a context in which sets answer."""
    return interpreted("is_chain", lambda *_: False)


@st.composite
def events_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw events, sometimes with equal times."""
    count = draw(st.integers(1, 9))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5, 0]), min_size=count, max_size=count))
    kinds = draw(st.lists(st.sampled_from("AAAB"), min_size=count, max_size=count))
    prices = draw(st.lists(PRICES, min_size=count, max_size=count))
    volumes = draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count))
    rows = zip(np.cumsum(steps), kinds, prices, volumes, strict=True)
    return [
        {"ts": int(ts), "type": kind, "price": price, "volume": volume}
        for ts, kind, price, volume in rows
    ]


@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=min(settings().max_examples, 25))
@given(events_of(), st.sampled_from(WINDOWS))
def test_the_stack_gives_what_sets_give(
    predicate: str, events: list[dict[str, Any]], window: str
) -> None:
    text = f"RETURN {AGGREGATES} PATTERN A+ SEMANTICS next WHERE {predicate} {window}"
    compiled, table = query(text), table_of(events)
    with watching() as answered:
        found = run_table(compiled.plan, table)
    with without_stack():
        assert bits(found) == bits(run_table(compiled.plan, table))
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))
    times = [event["ts"] for event in events if event["type"] == "A"]
    wanted = PREDICATES[predicate]
    if wanted is False:
        assert not any(answered), "sets answer"
    if wanted and len(set(times)) == len(times) and not window:
        assert all(answered), "the stack answers"


@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=min(settings().max_examples, 25))
@given(events_of(), st.sampled_from(WINDOWS), st.sampled_from(COUNTED))
def test_a_stack_of_values_gives_what_sets_give(
    predicate: str, events: list[dict[str, Any]], window: str, items: str
) -> None:
    text = f"RETURN {items} PATTERN A+ SEMANTICS next WHERE {predicate} {window}"
    compiled, table = query(text), table_of(events)
    with counting_alone() as answered:
        found = run_table(compiled.plan, table)
    with without_stack():
        assert bits(found) == bits(run_table(compiled.plan, table))
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))
    times = [event["ts"] for event in events if event["type"] == "A"]
    assert PREDICATES[predicate] or not any(answered), "sets or the stack of ranks answer"
    if PREDICATES[predicate] and len(set(times)) == len(times) and items is not AGGREGATES:
        assert all(answered), "the stack of values answers"


@pytest.mark.parametrize("predicate", [p for p, kind in PREDICATES.items() if kind])
def test_long_streams_of_few_values(predicate: str) -> None:
    random = np.random.default_rng(11)
    events = [
        {"ts": n, "type": "A", "price": float(random.integers(0, 12)), "volume": 1}
        for n in range(400)
    ]
    text = f"RETURN {AGGREGATES} PATTERN A+ SEMANTICS next WHERE {predicate}"
    compiled, table = query(text), table_of(events)
    with watching() as answered:
        found = run_table(compiled.plan, table)
    assert answered == [True]
    with without_stack():
        assert bits(found) == bits(run_table(compiled.plan, table))
    with forced(Tier.COMPILE):
        assert bits(found) == bits(run_table(compiled.plan, table))
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        with forced(tier), counting_alone() as answered:
            assert bits(found) == bits(run_table(compiled.plan, table))
        assert answered == [True]
