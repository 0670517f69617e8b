"""Linear queries on a simulated GPU give what the oracle and the CPU give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, supported, table_of

from cepheid.accelerator import linear
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.accelerator.systems import system_of
from cepheid.api import query
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import needs_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.kinds.trend.device.summaries import DeviceSummariser
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, choices, patterns, streams

SCHEMA = {
    "ts": "timestamp",
    "type": "string",
    "price": "double",
    "volume": "int",
    "key": "string",
    "zone": "string",
}
pytestmark = pytest.mark.timeout(600)  # kernels compile on first use
SEMANTICS = ["skip-till-any-match", "skip-till-next-match", "contiguous"]
WINDOWS = ["", "WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s"]


class Alternating(Scheduler):
    """Sends every other batch to the CPU."""

    calls: int = 0

    def choose(self, events: int) -> Place:
        self.calls += 1
        return Place.GPU if self.calls % 2 else Place.CPU


def run(text: str, table: pa.Table, rows: int, scheduler: Scheduler) -> list[dict[str, Any]]:
    """Run a query on the device, the stream cut into batches."""
    job = lower(TrendPlan.of(query(text, schema=SCHEMA).plan))
    summariser, composer, gate = DeviceSummariser(job, scheduler), Composer(job), Gate(job.plan)
    for batch in [*map(gate.admit, slices_of(table, rows)), gate.rest()]:
        if batch is not None and len(batch):
            summariser.feed(batch, last=True)
            keys = summariser.state.keys
            names = key_table(keys, np.arange(len(keys)), table.schema)
            composer.add(names, summariser.take())
    return build_table(job, composer.finish(), composer.keys, table.schema).to_pylist()


@settings(max_examples=min(settings().max_examples, 25))
@given(st.data())
def test_random_queries_give_what_the_oracle_gives(data: st.DataObject) -> None:
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
    assume(not needs_of(compiled.plan).not_on_device)
    events = data.draw(streams(SCHEMA, events_max=7))
    rows = data.draw(st.integers(1, 8))
    scheduler = data.draw(choice([Scheduler(Place.GPU), Alternating()]))
    actual = run(text, table_of(events), rows, scheduler)
    expected = evaluate(compiled.tree, events)
    assert same_rows(actual, expected), f"{actual} instead of {expected}"


def _events(length: int, types: str = "ABC") -> pa.Table:
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.arange(length) * 1000,
        "type": rng.choice(list(types), length),
        "price": rng.normal(size=length),
        "key": rng.choice(["x", "y", "z"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*) PATTERN (SEQ(A+, B))+",
        "RETURN COUNT(*), SUM(A.price), MIN(A.price) PATTERN (SEQ(A+, B))+",
        "RETURN key, COUNT(*), AVG(B.price) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key "
        "WITHIN 40 ms SLIDE 10 ms",
        "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B+) TIES arrival",
        "RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, B+, C+)",
    ],
)
def test_many_chunks_give_what_the_cpu_gives(text: str) -> None:
    compiled, events = query(text), _events(400)
    assert same_rows(
        compiled.run(events, device="gpu").to_pylist(), compiled.run(events).to_pylist()
    )


def test_counts_beyond_doubles_are_right_in_one_chunk_and_in_many() -> None:
    text = "RETURN LOG2(COUNT(*)) PATTERN (SEQ(A+, B))+"
    events = _events(2_400, "AB")
    compiled = query(text)
    expected = compiled.run(events).to_pylist()
    assert expected[0]["log2_count"] > 1_024
    assert same_rows(compiled.run(events, device="gpu").to_pylist(), expected)
    job = lower(TrendPlan.of(compiled.with_schema(events.schema).plan))
    program = job.programs[0]
    system = system_of(program, *job.columns_of(program))
    assert system is not None
    device = linear.DeviceSystem(system)
    codes = np.random.default_rng(1).integers(0, 3, 2_000).astype(np.uint8)
    weights, values = np.zeros((0, 2_000)), np.zeros((0, 2_000), np.int64)
    bounds = np.array([0, 2_000])
    results = [
        linear.summarise(device, codes, weights, values, bounds, sizes, wide=wide)[0]
        for sizes in (linear.Sizes(1, 1, 4_096), linear.Sizes(4, 9, 8))
        for wide in (False, True)
    ]
    for numbers in results[1:]:
        assert np.allclose(numbers.real, results[0].real, rtol=1e-9)
        assert np.array_equal(numbers.imag, results[0].imag)


def test_auto_runs_on_the_cpu_where_there_is_no_gpu() -> None:
    compiled, events = query("RETURN COUNT(*) PATTERN SEQ(A+, B)"), _events(50)
    assert compiled.run(events, device="auto").equals(compiled.run(events))
    assert compiled.run(events.to_pandas(), device="auto").equals(compiled.run(events.to_pandas()))


def test_explain_says_where_a_query_would_run() -> None:
    linear_query = query("RETURN COUNT(*) PATTERN SEQ(A+, B)")
    assert linear_query.explain(engine="gpu").splitlines()[-1].startswith("device  cpu: numba's")
    edges = query("RETURN COUNT(*) PATTERN SEQ(A S+, B) WHERE S.price > NEXT(S).price")
    last = edges.explain(engine="gpu").splitlines()[-1]
    why = "a GPU runs only one variable under Kleene plus, and comparisons of it"
    assert last == f"device  cpu: with edge predicates, {why}"


def test_a_device_that_is_asked_for_must_do_the_work() -> None:
    events = _events(50)
    with pytest.raises(UnsupportedError) as caught:
        query("RETURN COUNT(*) PATTERN SEQ(A S+, B) WHERE S.price > NEXT(S).price").run(
            events, device="gpu"
        )
    assert caught.value.diagnostics[0].code == "E552"
    with pytest.raises(ValueError, match="auto, cpu, gpu"):
        query("RETURN COUNT(*) PATTERN A").run(events, device="tpu")


def test_no_gpu_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    from cepheid.accelerator import device

    monkeypatch.setattr(device, "find_device", lambda: (device.Found.NONE, "no driver"))
    with pytest.raises(UnsupportedError) as caught:
        query("RETURN COUNT(*) PATTERN A").run(_events(5), device="gpu")
    assert caught.value.diagnostics[0].code == "E551"
