"""Matrices of panes: every lane has numbers of its own size, and events that reach some of them."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, same_value, table_of

from cepheid.api import query
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


class Chain(NamedTuple):
    """Events of given types one after the other, some of them repeated, perhaps all again."""

    text: str
    types: str
    repeated: tuple[bool, ...]
    again: bool = False


CHAINS = [
    Chain("(SEQ(A+, B))+", "AB", (True, False), again=True),
    Chain("SEQ(A+, B)", "AB", (True, False)),
    Chain("SEQ(B, A+)", "BA", (False, True)),
    Chain("SEQ(B, A+, C, D)", "BACD", (False, True, False, False)),
]


class State:
    """Matches that end at one place of a chain: how many, their values, and the least of them."""

    def __init__(self) -> None:
        self.count = self.total = self.values = 0
        self.least = math.inf

    def add(self, other: State) -> None:
        self.count += other.count
        self.total += other.total
        self.values += other.values
        self.least = min(self.least, other.least)


def last_state(chain: Chain, events: list[tuple[int, str, int]]) -> State:
    """Return the matches of a chain in one window, in big integers; A has the values."""
    states = [State() for _ in chain.types]
    groups: dict[int, list[tuple[str, int]]] = {}
    for ts, kind, value in events:
        groups.setdefault(ts, []).append((kind, value))
    for group in groups.values():
        new = []
        for kind, value in group:
            for q in [q for q, own in enumerate(chain.types) if own == kind]:
                found = State()
                found.count = 1 if q == 0 else 0
                sources = [q] * chain.repeated[q] + [q - 1] * (q > 0)
                for r in sources + [len(states) - 1] * (chain.again and q == 0):
                    found.add(states[r])
                if kind == "A" and found.count:
                    found.total += value * found.count
                    found.values += found.count
                    found.least = min(found.least, value)
                new.append((q, found))
        for q, found in new:
            states[q].add(found)
    return states[-1]


@settings(max_examples=20)
@given(
    chain=st.sampled_from(CHAINS),
    seed=st.integers(0, 1000),
    spacing=st.sampled_from([1, 3, 100]),
    tied=st.booleans(),
    batch_rows=st.sampled_from([300, 10_000]),
    slide=st.sampled_from([100, 1000]),
)
def test_sliding_windows_of_any_size_equal_big_integers(
    chain: Chain,
    seed: int,
    spacing: int,
    tied: bool,  # noqa: FBT001
    batch_rows: int,
    slide: int,
) -> None:
    draw = random.Random(seed)
    events = [
        (i // (1 + tied) * spacing, draw.choice("AAA" + chain.types), draw.randrange(100))
        for i in range(2500)
    ]
    columns = zip(*events, strict=True)
    table = pa.table(dict(zip(("ts", "type", "x"), map(list, columns), strict=True)))
    compiled = query(
        f"RETURN LOG2(COUNT(*)) AS size, AVG(A.x) AS mean, MIN(A.x) AS least PATTERN {chain.text} "
        f"WITHIN 2000 us SLIDE {slide} us",
        schema=table.schema,
    )
    rows = run_table(compiled.plan, table, batch_rows=batch_rows).to_pylist()
    found = {row["window_start"]: row for row in rows}
    starts = range(-2000 + slide, events[-1][0] + 1, slide)
    for start in draw.sample(starts, min(len(starts), 8)):
        state = last_state(chain, [e for e in events if start <= e[0] < start + 2000])
        if not state.count:
            assert start not in found
            continue
        row = found[start]
        assert same_value(row["size"], math.log2(state.count))
        assert same_value(row["mean"], state.total / state.values)
        assert row["least"] == state.least


def special(number: float) -> dict[str, Any]:
    return {"type": "A", "price": number}


@pytest.mark.parametrize("semantics", ["any", "skip-till-next-match", "contiguous"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_stays_in_its_windows(number: float, semantics: str) -> None:
    kinds = [special(1.0), special(number), {"type": "B", "price": 2.0}, special(3.0)]
    events = [
        {"ts": n * 1_000_000, **kinds[kind]}
        for n, kind in enumerate([2, 1, 2, 0, 3, 2, 2, 0, 1, 3, 2, 0, 0, 2])
    ]
    table = table_of(events)
    compiled = query(
        f"RETURN COUNT(*), SUM(A.price), AVG(B.price) PATTERN (SEQ(A+, B))+ SEMANTICS {semantics} "
        "WITHIN 4 s SLIDE 1 s",
        schema=table.schema,
    )
    actual = run_table(compiled.plan, table).to_pylist()
    assert same_rows(actual, evaluate(compiled.tree, events))
