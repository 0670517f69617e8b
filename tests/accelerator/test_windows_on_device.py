"""Windows without SLIDE, and windows counted in events, on a simulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import KINDS, same_rows, supported, table_of

from cepheid.accelerator import trailing as accelerator
from cepheid.api import query
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.trend.device import run as runs
from cepheid.kinds.trend.device import trailing
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, choices, patterns, streams

SCHEMA = {"ts": "timestamp", "type": "string", "price": "double", "key": "string"}
SEMANTICS = ["skip-till-any-match", "skip-till-next-match", "contiguous"]
WINDOWS = [
    "WITHIN 1 s",
    "WITHIN 3 s",
    "WITHIN 2 EVENTS SLIDE 2 EVENTS",
    "WITHIN 4 EVENTS SLIDE 2 EVENTS",
    "WITHIN 3 EVENTS SLIDE 1 EVENT",
]
pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


@pytest.mark.filterwarnings("ignore:no event has the type")
@settings(max_examples=min(settings().max_examples, 25))
@given(st.data())
def test_random_windows_give_what_the_oracle_gives(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    variables = sorted(
        TrendPlan.of(query(f"RETURN COUNT(*) PATTERN {pattern}").plan).patterns[0].variables()
    )
    parts = [f"{f}({v}.price)" for v in variables for f in ("SUM", "MIN", "MAX", "AVG")]
    chosen = data.draw(choices(parts, 0, 2, unique=True))
    keyed = data.draw(st.booleans())
    text = " ".join(
        [
            f"RETURN {', '.join([*(['key'] if keyed else []), 'COUNT(*)', *chosen])}",
            f"PATTERN {pattern} SEMANTICS {data.draw(choice(SEMANTICS))}",
            "WHERE [key] GROUP-BY key" if keyed else "",
            data.draw(choice(WINDOWS)),
            data.draw(choice(["", "TIES arrival"])),
        ]
    )
    compiled = query(text, schema=SCHEMA)
    assume(supported(compiled))
    assume(not kind_of(compiled.plan).why_not_on_device(compiled.plan))
    events = data.draw(streams(SCHEMA, events_max=7))
    actual = compiled.run(_whole(events), device="gpu").to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(actual, expected), f"{actual} instead of {expected}"


def _whole(events: list[dict[str, Any]]) -> pa.Table:
    """Return events as a table that has all columns."""
    table = table_of(events)
    for name in SCHEMA:
        if name not in table.column_names:
            table = table.append_column(name, pa.array([None] * len(table), KINDS[name]))
    return table


def _events(length: int, keys: int = 3) -> pa.Table:
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.cumsum(rng.integers(1, 4, length)),
        "type": rng.choice(list("ABC"), length),
        "price": rng.normal(size=length),
        "key": rng.integers(0, keys, length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 90 us",
        "RETURN key, COUNT(*), SUM(A.price), MIN(B.price) PATTERN SEQ(A+, B) "
        "WHERE [key] GROUP-BY key WITHIN 200 us",
        "RETURN COUNT(*), MAX(A.price) PATTERN SEQ(A, NOT C, B) WITHIN 40 us",
        "RETURN LOG2(COUNT(*)) PATTERN (SEQ(A+, B))+",
        "RETURN COUNT(*), AVG(A.price) PATTERN SEQ(A+, B) WITHIN 50 EVENTS SLIDE 20 EVENTS",
        "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key "
        "WITHIN 30 EVENTS SLIDE 30 EVENTS",
        "RETURN COUNT(*), SUM(A.price) PATTERN A+ WHERE A.price < NEXT(A).price "
        "WITHIN 12 EVENTS SLIDE 4 EVENTS",
    ],
)
def test_windows_over_several_levels_give_what_the_cpu_gives(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "ENDS_MAX", 50)
    # Edges are compared pair by pair, which the simulator takes long for.
    compiled, events = query(text), _events(100 if "NEXT" in text else 400)
    assert same_rows(
        compiled.run(events, device="gpu").to_pylist(), compiled.run(events).to_pylist()
    )


def test_trailing_windows_run_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: Any) -> Any:
        calls.append(1)
        return trailing_windows(*args)

    trailing_windows = accelerator.trailing_windows
    monkeypatch.setattr(trailing, "trailing_windows", counted)
    query("RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 9 us").run(_events(50), device="gpu")
    assert calls == [1]


def test_counted_windows_run_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: Any, **kinds: Any) -> Any:
        calls.append(1)
        return run_columns(*args, **kinds)

    run_columns = runs.run_columns
    monkeypatch.setattr(runs, "run_columns", counted)
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 9 EVENTS SLIDE 3 EVENTS"
    query(text).run(_events(50), device="gpu")
    assert calls == [1]


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 9 us EMIT ON EXPIRY",
        "RETURN COUNT(*) PATTERN SEQ(A+, B) WHERE [key] WITHIN 9 us",
    ],
)
def test_windows_that_add_up_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        query(text).run(_events(10), device="gpu")
    assert [d.code for d in caught.value.diagnostics] == ["E552"]


def test_counts_beyond_doubles_are_right_in_trailing_windows() -> None:
    events = pa.table({"ts": list(range(2_600)), "type": ["A", "B"] * 1_300})
    compiled = query("RETURN LOG2(COUNT(*)) PATTERN (SEQ(A+, B))+ WITHIN 2 ms")
    assert same_rows(
        compiled.run(events, device="gpu").to_pylist(), compiled.run(events).to_pylist()
    )
