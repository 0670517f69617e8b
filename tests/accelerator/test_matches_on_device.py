"""Matches of bounded length that a simulated GPU lists: those of the oracle, in the CPU's order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, supported

from cepheid.api import query
from cepheid.errors import DataError, UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.trend.device import matches
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, streams

SCHEMA = {"ts": "timestamp", "type": "string", "price": "double", "volume": "int", "key": "string"}
PATTERNS = [
    "SEQ(A a, B b)",
    "SEQ(A a, B b, C c)",
    "SEQ(A a, B b?, C c)",
    "SEQ(A a, A b, A c)",
    "SEQ(A a, (B b OR C c))",
    "SEQ(A a?, B b, C c?)",
]
WHERE = [
    "",
    "a.price < b.price",
    "a.price = b.price AND a.volume <= b.volume",
    "a.volume <> b.volume AND [key]",
    "[key]",
    "b.price > 1 AND a.price >= b.price",
]
WINDOWS = [
    "",
    "WITHIN 2 s SLIDE 2 s",
    "WITHIN 3 s SLIDE 1 s",
    "WITHIN 2 s",
    "WITHIN 4 EVENTS SLIDE 2 EVENTS",
]
pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


@pytest.mark.filterwarnings("ignore:no event has the type")
@settings(max_examples=min(settings().max_examples, 40))
@given(st.data())
def test_random_matches_are_those_of_the_oracle_in_the_order_of_the_cpu(
    data: st.DataObject,
) -> None:
    where = data.draw(choice(WHERE))
    text = " ".join(
        [
            f"RETURN MATCHES PATTERN {data.draw(choice(PATTERNS))}",
            f"WHERE {where}" if where else "",
            data.draw(choice(WINDOWS)),
            data.draw(choice(["", "TIES arrival"])),
            data.draw(choice(["", "", "LIMIT 3"])),
        ]
    )
    events = data.draw(streams(SCHEMA, events_max=8))
    assume(events)
    table = numbered(events)
    for name in ("price", "volume", "key"):
        assume(name in table.column_names)
    compiled = query(text, schema=SCHEMA)
    assume(supported(compiled))
    assume(not kind_of(compiled.plan).why_not_on_device(compiled.plan))
    actual = compiled.run(table, device="gpu")
    # NaN equals nothing.
    assert str(actual.to_pylist()) == str(compiled.run(table).to_pylist())
    if "LIMIT" not in text:
        assert readable(actual.to_pylist()) == readable(evaluate(compiled.tree, events))


def _events(length: int) -> pa.Table:
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.cumsum(rng.integers(0, 3, length)),
        "type": rng.choice(list("ABC"), length),
        "price": rng.integers(0, 9, length).astype(float),
        "volume": rng.integers(0, 9, length),
        "key": rng.choice(["x", "y"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.mark.parametrize("most", [200, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        "RETURN MATCHES PATTERN SEQ(A a, B b?, C c) WHERE [key] AND a.price < c.price WITHIN 20 us",
        "RETURN a.ts, c.price PATTERN SEQ(A a, B b, C c) WHERE a.price = b.price WITHIN 30 us",
        "RETURN MATCHES PATTERN SEQ(A a, B b, C c) "
        "WHERE a.price < FIRST(c.price) AND FIRST(a.volume) + FIRST(b.volume) < 9 WITHIN 12 us",
    ],
)
def test_many_matches_are_those_of_the_cpu(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matches, "PARTIAL_MAX", most)
    monkeypatch.setattr(matches, "TRIGGERS", 64)
    compiled, events = query(text), _events(150)
    expected = compiled.run(events)
    assert len(expected)
    assert compiled.run(events, device="gpu").equals(expected)


def test_too_many_partial_matches_are_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "PARTIAL_MAX", 2)
    compiled, events = query("RETURN MATCHES PATTERN SEQ(A, B)"), _events(40)
    with pytest.raises(DataError) as caught:
        compiled.run(events, device="gpu")
    assert [d.code for d in caught.value.diagnostics] == ["E553"]
    plan = TrendPlan.of(compiled.with_schema(events.schema).plan)
    assert matches.DeviceMatches(plan).answer(events, forced=False) is None


def test_predicates_that_do_not_separate_are_for_the_cpu() -> None:
    text = "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE a.price * b.price > 3 AND a.price < b.price"
    compiled, events = query(text), _events(40)
    assert compiled.run(events, device="gpu").equals(compiled.run(events))


@pytest.mark.parametrize(
    "text",
    [
        "RETURN MATCHES PATTERN SEQ(A+, B)",
        "RETURN MATCHES PATTERN SEQ(A, NOT C, B)",
        "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS skip-till-next-match",
        "RETURN MATCHES PATTERN SEQ(A, B) AFTER MATCH SKIP PAST LAST",
    ],
)
def test_other_matches_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        query(text).run(_events(10), device="gpu")
    assert [d.code for d in caught.value.diagnostics] == ["E552"]
