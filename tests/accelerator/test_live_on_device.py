"""Live queries whose micro-batches run on a simulated GPU, on the CPU, or on both in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import KINDS, same_rows, supported, table_of

from cepheid.accelerator import failures, linear, selecting
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.api import query
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.selection import device
from cepheid.kinds.trend.device import live
from cepheid.kinds.trend.device.summaries import DeviceSummariser
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, choices, patterns, streams

SCHEMA = {"ts": "timestamp", "type": "string", "price": "double", "key": "string"}
TYPES: dict[str, Any] = KINDS
ARROW = pa.schema([pa.field(name, TYPES[name]) for name in SCHEMA])
SEMANTICS = ["skip-till-any-match", "skip-till-next-match", "contiguous"]
WINDOWS = ["WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s", "WITHIN 3 s SLIDE 2 s"]
pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


class Alternating(Scheduler):
    """Sends every other batch to the CPU."""

    calls: int = 0

    def choose(self, events: int) -> Place:
        self.calls += 1
        return Place.GPU if self.calls % 2 else Place.CPU


@settings(max_examples=min(settings().max_examples, 25))
@given(st.data())
def test_random_live_queries_give_what_the_oracle_gives(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    variables = sorted(
        TrendPlan.of(query(f"RETURN COUNT(*) PATTERN {pattern}").plan).patterns[0].variables()
    )
    parts = [f"{f}({v}.price)" for v in variables for f in ("SUM", "MIN", "AVG")]
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
    assume(not kind_of(compiled.plan).why_not_live_on_device(compiled.plan))
    events = data.draw(streams(SCHEMA, events_max=8))
    assume(events)
    whole = _whole(events)
    running = compiled.live(ARROW, device="gpu")
    if data.draw(st.booleans()):
        running._job._device.scheduler = Alternating()
    rows: list[dict[str, Any]] = []
    size = data.draw(st.integers(1, 8))
    for begin in range(0, len(whole), size):
        rows += running.feed(whole.slice(begin, size)).to_pylist()
        if data.draw(st.booleans()):
            running = compiled.live(ARROW, state=running.save(), device="gpu")
    rows += running.close().to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(rows, expected), f"{rows} instead of {expected}"


def _whole(events: list[dict[str, Any]]) -> pa.Table:
    """Return events as a table that has all columns, in time order."""
    table = table_of(events)
    for name in SCHEMA:
        if name not in table.column_names:
            table = table.append_column(name, pa.array([None] * len(table), KINDS[name]))
    order = np.argsort(np.asarray(table["ts"]), kind="stable")
    return table.select(list(SCHEMA)).take(order)


def _events(length: int) -> pa.Table:
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.arange(length) * 1000,
        "type": rng.choice(list("ABC"), length),
        "price": rng.normal(size=length),
        "key": rng.choice(["x", "y", "z"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


TEXT = (
    "RETURN key, COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key "
    "WITHIN 40 ms SLIDE 10 ms"
)


def _run(device: str, table: pa.Table, text: str = TEXT) -> list[dict[str, Any]]:
    return _fed(query(text).live(table.schema, watermark="5 ms", device=device), table)


def _fed(running: Any, table: pa.Table) -> list[dict[str, Any]]:
    rows = [
        row
        for begin in range(0, len(table), 60)
        for row in running.feed(table.slice(begin, 60)).to_pylist()
    ]
    return [*rows, *running.close().to_pylist()]


def test_batches_run_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    summarise = linear.summarise

    def counted(*args: Any, **kinds: Any) -> Any:
        calls.append(1)
        return summarise(*args, **kinds)

    monkeypatch.setattr(linear, "summarise", counted)
    table = _events(300)
    assert same_rows(_run("gpu", table), _run("cpu", table))
    assert len(calls) >= 3


def test_a_device_that_fails_leaves_the_stream_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        why = "it is full"
        raise failures.broken_device(why)

    table = _events(200)
    expected = _run("cpu", table)
    monkeypatch.setattr(DeviceSummariser, "summary_of_run", fail)
    with pytest.raises(UnsupportedError) as caught:
        _run("gpu", table)
    assert [d.code for d in caught.value.diagnostics] == ["E554"]
    steps = live.DeviceSteps(
        TrendPlan.of(query(TEXT).with_schema(table.schema).plan), table.schema, forced=False
    )
    assert steps._device is not None
    steps._device.scheduler = Alternating()
    monkeypatch.setattr(failures, "_told", set())
    with pytest.warns(UserWarning, match="W501"):
        state, first = steps.step(steps.start(), table)
    _, rest = steps.finish(state)
    assert same_rows([*first.to_pylist(), *rest.to_pylist()], expected)


SELECTS = [
    "SELECT ts, price FROM s WHERE price > 0.5",
    "SELECT key, COUNT(*), SUM(count), MIN(price), MAX(count) FROM s WHERE price > -1.0 "
    "GROUP BY key WINDOW 40 ms SLIDE 10 ms",
    "SELECT key, COUNT(DISTINCT count), SUM(count) FROM s WHERE price > 0.0 GROUP BY key "
    "WINDOW SESSION 2 ms",
    "SELECT type, AVG(count) FROM s WHERE key = 'x' GROUP BY type WINDOW 30 ms",
    "SELECT key, SUM(count) FROM s WHERE price > 0.0 GROUP BY key WINDOW 20 EVENTS SLIDE 5 EVENTS",
]


@pytest.mark.parametrize("text", SELECTS)
def test_a_live_select_runs_on_the_device_or_on_both_in_turn(text: str) -> None:
    table = _events(240)
    table = table.append_column("count", pa.array(np.arange(240) % 7 - 3))
    expected = _run("cpu", table, text)
    assert expected
    assert same_rows(_run("gpu", table, text), expected)
    running = query(text).live(table.schema, watermark="5 ms", device="gpu")
    running._job.placing.scheduler = Alternating()
    assert same_rows(_fed(running, table), expected)
    assert running._job.placing.scheduler.calls > 2


def test_a_live_select_goes_on_where_its_state_was_saved() -> None:
    table, compiled = _events(200), query("SELECT key, MAX(price) FROM s GROUP BY key WINDOW 90 ms")
    running = compiled.live(table.schema, device="gpu")
    rows = running.feed(table.slice(0, 70)).to_pylist()
    for place, begin in (("cpu", 70), ("gpu", 140)):
        running = compiled.live(table.schema, state=running.save(), device=place)
        rows += running.feed(table.slice(begin, 70)).to_pylist()
    rows += running.close().to_pylist()
    assert same_rows(rows, compiled.run(table).to_pylist())


def test_a_live_select_goes_on_when_a_device_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        why = "it is full"
        raise failures.broken_device(why)

    table, text = _events(200), SELECTS[0]
    expected = _run("cpu", table, text)
    monkeypatch.setattr(device.DeviceOperators, "keep", fail)
    monkeypatch.setattr(failures, "_told", set())
    with pytest.raises(UnsupportedError, match="E554"):
        _run("gpu", table, text)
    running = query(text).live(table.schema, watermark="5 ms", device="gpu")
    running._job.placing.scheduler = Alternating()
    with pytest.warns(UserWarning, match="W501"):
        assert same_rows(_fed(running, table), expected)


LIVE_JOINS = [
    "SELECT a.ts, b.price AS other FROM s a JOIN r b ON a.price < b.price AND a.key = b.key "
    "WINDOW 4 ms",
    "SELECT a.ts, c.price AS other FROM s a JOIN r b ON a.key = b.key JOIN t c "
    "ON b.price < c.price AND a.price > c.price WINDOW 3 ms",
    "SELECT a.key, COUNT(*), SUM(b.price) FROM s a WITHIN 3 ms JOIN r b WITHIN 4 ms "
    "ON a.price < b.price GROUP BY a.key WINDOW 9 ms",
]


@pytest.mark.parametrize("text", LIVE_JOINS)
def test_live_joins_pair_on_the_device_or_on_both_in_turn(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, pairs = query(text), list[int]()
    names = list(dict.fromkeys(compiled.plan.streams))
    tables = {name: _events(90 + 10 * n) for n, name in enumerate(names)}
    schemas = {name: table.schema for name, table in tables.items()}
    match = device.DeviceOperators.match

    def matched(own: Any, joined: Any, candidates: Any) -> Any:
        pairs.append(1)
        return match(own, joined, candidates)

    def rows(place: str, scheduler: Scheduler | None = None) -> list[dict[str, Any]]:
        running = compiled.live(schemas, watermark="1 ms", device=place)
        if scheduler is not None:
            join: Any = running._job.steps
            getattr(join, "join", join).by.placing.scheduler = scheduler
        found = []
        for begin in range(0, 110, 30):
            parts = {name: table.slice(begin, 30) for name, table in tables.items()}
            found += running.feed(parts).to_pylist()
            if scheduler is None:
                running = compiled.live(
                    schemas, watermark="1 ms", state=running.save(), device=place
                )
        return [*found, *running.close().to_pylist()]

    monkeypatch.setattr(device.DeviceOperators, "match", matched)
    expected = rows("cpu")
    assert expected
    assert not pairs
    assert same_rows(rows("gpu"), expected)
    assert pairs
    assert same_rows(rows("gpu", Alternating()), expected)


def test_a_live_join_goes_on_when_a_device_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        why = "it is full"
        raise failures.broken_device(why)

    compiled, table = query(LIVE_JOINS[0]), _events(60)
    schemas = dict.fromkeys(("s", "r"), table.schema)
    expected = compiled.run({"s": table, "r": table}).to_pylist()
    monkeypatch.setattr(selecting, "count_pairs", fail)
    monkeypatch.setattr(failures, "_told", set())
    running = compiled.live(schemas, device="gpu")
    with pytest.raises(UnsupportedError, match="E554"):
        running.feed({"s": table, "r": table})
    running = compiled.live(schemas, device="gpu")
    steps: Any = running._job.steps
    steps.by.placing.scheduler = Alternating()
    with pytest.warns(UserWarning, match="W501"):
        rows = running.feed({"s": table, "r": table}).to_pylist()
    assert same_rows([*rows, *running.close().to_pylist()], expected)


@pytest.mark.parametrize(
    "text",
    [
        "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 1 s",
        "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s",
    ],
)
def test_other_live_queries_are_refused(text: str) -> None:
    schema = _events(1).schema
    with pytest.raises(UnsupportedError) as caught:
        query(text).live(schema, device="gpu")
    assert [d.code for d in caught.value.diagnostics] == ["E552"]
    assert query(text).live(schema, device="auto").close().num_rows == 0
