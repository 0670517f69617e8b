"""Columns that a simulated GPU reads as they lie in Arrow give what the oracle and the CPU give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, supported, table_of

from cepheid.accelerator import launches, uploading
from cepheid.accelerator.uploading import Uploader
from cepheid.api import CompiledQuery, query
from cepheid.errors import DataError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.trend.device import columns, run
from cepheid.kinds.trend.program.job import lower
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, choices, patterns, streams

pytestmark = pytest.mark.timeout(600)
SCHEMA = {"ts": "timestamp", "type": "string", "price": "double", "volume": "int"}
SEMANTICS = ["skip-till-any-match", "skip-till-next-match", "contiguous"]
WINDOWS = ["", "WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few events be many batches, and every pane long enough."""
    monkeypatch.setattr(columns, "BATCH_ROWS", 130)
    monkeypatch.setattr(uploading, "ENCODED_ROWS", 50)
    monkeypatch.setattr(columns, "PANE_EVENTS_MIN", 1)


def directly(compiled: CompiledQuery, table: pa.Table, *, untied: bool = True) -> pa.Table | None:
    """Run a query over columns on the device, if it can read them."""
    plan = TrendPlan.of(compiled.with_schema(table.schema).plan)
    return run.run_columns(lower(plan), table, untied=untied)


@pytest.mark.filterwarnings("ignore:no event has the type")
@settings(max_examples=min(settings().max_examples, 30))
@given(st.data())
def test_random_queries_give_what_the_oracle_gives(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    plain = TrendPlan.of(query(f"RETURN COUNT(*) PATTERN {pattern}").plan)
    parts = [
        f"{function}({variable}.{name})"
        for variable in sorted(plain.patterns[0].variables())
        for function in ("SUM", "MIN", "MAX", "AVG")
        for name in ("price", "volume")
    ]
    text = " ".join(
        [
            f"RETURN {', '.join(['COUNT(*)', *data.draw(choices(parts, 0, 3, unique=True))])}",
            f"PATTERN {pattern} SEMANTICS {data.draw(choice(SEMANTICS))}",
            data.draw(choice(WINDOWS)),
            data.draw(choice(["", "TIES arrival"])),
        ]
    )
    compiled = query(text, schema=SCHEMA)
    assume(supported(compiled))
    assume(not kind_of(compiled.plan).why_not_on_device(compiled.plan))
    events = data.draw(streams(SCHEMA, events_max=7))
    table = table_of([{**dict.fromkeys(SCHEMA), **event} for event in events])
    assume(len(table))
    found = compiled.run(table, device="gpu").to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(found, expected), f"{text}: {found} instead of {expected}"


def table(length: int = 400, types: str = "string") -> pa.Table:
    rng = np.random.default_rng(1)
    kinds: Any = pa.chunked_array([rng.choice(["A", "B", "C"], n) for n in (150, length - 150)])
    if types == "dictionary":
        # Every chunk has a dictionary of its own.
        kinds = pa.chunked_array(
            [kinds.chunk(0).dictionary_encode(), kinds.chunk(1)[::-1].dictionary_encode()]
        )
    return pa.table(
        {
            "ts": pa.array(np.arange(length) * 3 - 40),
            "type": kinds,
            "price": pa.array(rng.normal(size=length)),
            "volume": pa.array(rng.integers(-9, 9, length)),
        }
    )


TEXTS = [
    "RETURN LOG2(COUNT(*)) PATTERN (SEQ(A+, B))+",
    "RETURN COUNT(*) PATTERN (SEQ(A+, B))+ WITHIN 30 us SLIDE 30 us",
    "RETURN LOG2(COUNT(*)), SUM(A.price), MIN(A.price), AVG(A.price), MAX(B.volume), COUNT(B) "
    "PATTERN (SEQ(A+, B))+ WITHIN 100 us SLIDE 20 us",
    "RETURN COUNT(*), AVG(A.volume) PATTERN SEQ(A+, B) SEMANTICS next",
    "RETURN COUNT(*), SUM(A.volume) PATTERN SEQ(A, NOT C, B) WITHIN 400 us SLIDE 100 us",
    "RETURN COUNT(*) PATTERN SEQ(A, ANY x, B) WITHIN 400 us SLIDE 100 us",
]


@pytest.mark.parametrize("types", ["string", "dictionary"])
@pytest.mark.parametrize("text", TEXTS)
def test_batches_and_chunks_give_what_the_cpu_gives(text: str, types: str) -> None:
    compiled, events = query(text), table(types=types)
    expected = compiled.run(events).to_pylist()
    if "NOT" not in text:
        found = directly(compiled, events)
        assert found is not None
        assert same_rows(found.to_pylist(), expected)
    assert same_rows(compiled.run(events, device="gpu").to_pylist(), expected)


def changed(name: str, row: int, value: Any) -> pa.Table:
    values = table()[name].to_pylist()
    values[row] = value
    return table().set_column(table().column_names.index(name), name, [pa.array(values)])


SUMS = "RETURN LOG2(COUNT(*)), SUM(A.price), MAX(A.volume) PATTERN (SEQ(A+, B))+"


@pytest.mark.parametrize(
    "events",
    [
        changed("price", 7, None),
        changed("price", 7, float("inf")),
        changed("price", 7, 1e-200),
        changed("volume", 7, None),
        changed("type", 7, None),
        changed("ts", 7, -22),
        changed("ts", 130, 347),
        table().set_column(1, "type", table()["type"].cast(pa.large_string())),
        table().set_column(3, "volume", table()["volume"].cast(pa.int32())),
        table().slice(0, 0),
    ],
)
def test_what_the_host_must_read_is_left_to_it(events: pa.Table) -> None:
    compiled = query(SUMS)
    assert directly(compiled, events) is None
    found = compiled.run(events, device="gpu").to_pylist()
    assert same_rows(found, compiled.run(events).to_pylist())


def test_events_that_are_not_in_order_are_sorted_first() -> None:
    compiled = query(SUMS)
    for events in (table()[::-1], changed("ts", 130, 0), changed("ts", 9, -30)):
        assert directly(compiled, events, untied=False) is None
        with pytest.warns(UserWarning, match="not in the order"):
            found = compiled.run(events, device="gpu").to_pylist()
        with pytest.warns(UserWarning, match="not in the order"):
            assert same_rows(found, compiled.run(events).to_pylist())


def test_a_value_that_stands_for_null_is_refused() -> None:
    events = changed("volume", 7, -(2**63))
    for device in ("cpu", "gpu"):
        with pytest.raises(DataError, match="E504"):
            query("RETURN MAX(A.volume) PATTERN ANY A").run(events, device=device)


@pytest.mark.parametrize("text", ["SEQ(A, NOT C, B)", "SEQ(A+, NOT SEQ(C, A), B)"])
def test_negation_runs_on_the_device_unless_events_have_one_time(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    split = run.run_split

    def told(*arguments: Any) -> pa.Table:
        ran.append("split")
        return split(*arguments)

    monkeypatch.setattr(run, "run_split", told)
    keyed = query(f"RETURN LOG2(COUNT(*)) PATTERN {text} WHERE [volume]")
    tied = changed("ts", 7, -22)
    for events in (table(), tied):
        assert same_rows(keyed.run(events, device="gpu").to_pylist(), keyed.run(events).to_pylist())
    expected = 2 if tied["volume"][6] != tied["volume"][7] else 1
    assert len(ran) == expected
    both = changed("volume", 7, table()["volume"][6].as_py()).set_column(0, "ts", tied["ts"])
    assert same_rows(keyed.run(both, device="gpu").to_pylist(), keyed.run(both).to_pylist())
    assert len(ran) == expected, "the CPU sees events of one time together"


def test_threads_copy_pieces_to_their_places() -> None:
    from numba import cuda

    rng = np.random.default_rng(3)
    chunks: list[list[Any]] = [
        [rng.random(n) for n in (100, 1, 37)],
        [rng.integers(0, 9, 77).astype(np.int8)],
    ]
    targets = [cuda.device_array(138, np.float64), cuda.device_array(77, np.int8)]
    for piece in (8, 64, 1 << 12):
        Uploader(3, piece).put(chunks, targets)
        for own, target in zip(chunks, targets, strict=True):
            assert np.array_equal(target.copy_to_host(), np.concatenate(own))


def test_large_arrays_are_copied_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "THREADED_BYTES", 1)
    for array in (
        np.arange(12.0).reshape(3, 4),
        np.arange(9, dtype=np.int8) > 3,
        np.arange(8)[::2],
    ):
        there = launches.device_of(array)
        assert there.dtype == array.dtype
        assert (there.copy_to_host() == array).all()
