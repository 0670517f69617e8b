"""Calls over few events: what was built for a query serves the next call, and changes no row."""

from __future__ import annotations

import gc
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_linear import SCHEMA, linear_queries
from tests.engine.test_tiers import bits

import cepheid
from cepheid.errors import DataError
from cepheid.jobs.local_jobs import LocalJob
from cepheid.jobs.prepared import KEPT_ROWS, prepared_of
from cepheid.kinds.trend.kind import TrendKind
from cepheid.kinds.trend.program.program import Program
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import streams

KEYED = (
    "RETURN key, COUNT(*), SUM(A.price), MIN(A.price) PATTERN SEQ(A+, NOT C, B) WHERE [key] "
    "GROUP-BY key WITHIN 10 us SLIDE 5 us"
)


def small(seed: int, count: int = 60) -> pa.Table:
    """Return random events, of types and keys that differ from one seed to the next."""
    chance = random.Random(seed)
    types = chance.sample("ABCD", chance.randint(1, 4))
    keys = chance.sample(range(-5, 2_000), chance.randint(1, 6))
    return pa.table(
        {
            "ts": pa.array(sorted(chance.choices(range(count), k=count)), pa.timestamp("us")),
            "type": pa.array(chance.choices(types, k=count)).dictionary_encode(),
            "key": pa.array(chance.choices(keys, k=count), pa.int32()),
            "price": pa.array([float(chance.randint(0, 9)) for _ in range(count)]),
        }
    )


@given(linear_queries(), st.lists(streams(SCHEMA, events_max=6), min_size=2, max_size=3))
def test_a_kept_query_gives_the_rows_of_a_new_one(
    text: str, drawn: list[list[Mapping[str, object]]]
) -> None:
    compiled = cepheid.query(text, schema=SCHEMA)
    prepared = prepared_of(compiled)
    for events in [*drawn, *drawn]:
        table, job = table_of(events), prepared.take()
        found = job.answer_table(table, job.batch_rows)
        prepared.put_back(job)
        assert bits(found) == bits(run_table(compiled.plan, table, batch_rows=2))
        assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))


@pytest.mark.filterwarnings("ignore:.*W206")
def test_threads_that_run_one_query_get_their_own_rows() -> None:
    tables = [small(seed) for seed in range(12)]
    expected = [cepheid.query(KEYED).run(table) for table in tables]
    shared = cepheid.query(KEYED)
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            assert list(pool.map(shared.run, tables)) == expected


def test_a_schema_may_come_as_anything_that_has_one() -> None:
    table = small(1)
    for given_schema in (table.schema, table, table.to_reader, dataset.dataset(table)):
        compiled = cepheid.query(KEYED)
        found = [
            compiled.with_schema(given_schema() if callable(given_schema) else given_schema)
            for _ in range(2)
        ]
        assert found[0] is found[1]
        assert not any(one is table for one in gc.get_referents(*vars(compiled).values()))


def test_a_second_call_builds_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, built = cepheid.query(KEYED), list[object]()
    before = Program.__init__

    def counting(self: Program, *given: object, **named: object) -> None:
        built.append(self)
        before(self, *given, **named)  # type: ignore[arg-type]  # those of the constructor

    monkeypatch.setattr(Program, "__init__", counting)
    compiled.run(small(1))
    once = len(built)
    compiled.run(small(1).slice(7))
    assert once
    assert len(built) == once


def test_jobs_of_failed_and_of_large_runs_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, made = cepheid.query("RETURN COUNT(*), MAX(A.x) PATTERN A+"), list[object]()
    before = TrendKind.local_job

    def making(self: TrendKind, plan: TrendPlan) -> LocalJob:
        made.append(plan)
        return before(self, plan)

    monkeypatch.setattr(TrendKind, "local_job", making)
    largest = pa.table({"ts": [1], "type": ["A"], "x": [-(2**63)]})
    for _ in range(2):
        with pytest.raises(DataError, match="E504"):
            compiled.run(largest)
    assert len(made) == 2
    count = KEPT_ROWS + 1
    types = pa.array(["B"] * KEPT_ROWS + ["A"])
    large = pa.table({"ts": pa.array(range(count)), "type": types, "x": pa.array([1] * count)})
    compiled.run(large)
    compiled.run(large)
    assert len(made) == 4


def test_a_warning_comes_again_with_the_next_call() -> None:
    compiled = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A, B)")
    good = pa.table({"ts": [1, 2], "type": ["A", "B"]})
    lacking = pa.table({"ts": [1, 2], "type": ["A", "C"]})
    assert compiled.run(good).to_pylist() == [{"count": 1}]
    for _ in range(2):
        with pytest.warns(UserWarning, match="W206"):
            compiled.run(lacking)
    assert compiled.run(good).to_pylist() == [{"count": 1}]


def test_times_between_calls_are_looked_at_anew() -> None:
    compiled = cepheid.query("RETURN COUNT(*) PATTERN A")
    for _ in range(2):
        seconds = pa.table({"ts": [1_700_000_000, 1_700_000_001], "type": ["A", "A"]})
        with pytest.warns(UserWarning, match="W208"):
            compiled.run(seconds)
        compiled.run(pa.table({"ts": [1, 2], "type": ["A", "A"]}))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.string()])
def test_first_keys_of_any_type_are_those_of_later_batches(kind: pa.DataType) -> None:
    chance = random.Random(str(kind))
    keys = pa.array([chance.randint(0, 100) for _ in range(200)]).cast(kind)
    table = pa.table({"ts": range(200), "type": chance.choices("AB", k=200), "key": keys})
    compiled = cepheid.query("RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key")
    plan = compiled.with_schema(table.schema).plan
    assert compiled.run(table).equals(run_table(plan, table, batch_rows=7))


RULES = {
    "counts": "RETURN key, COUNT(*), SUM(b.x) PATTERN SEQ(A a, B b) WHERE [key] GROUP-BY key",
    "more": "RETURN key, COUNT(*) PATTERN SEQ(A a, B b, A c) WHERE [key] GROUP-BY key",
    "edges": "RETURN COUNT(*) PATTERN SEQ(A a, B b+) WHERE a.x < b.x",
    "list": "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE a.x < b.x",
}


def test_a_workload_is_planned_once_for_a_schema_and_anew_for_another() -> None:
    rules = cepheid.workload(RULES)
    whole = pa.table(
        {"ts": [1, 2, 3, 4], "type": [*"ABAB"], "key": [1, 1, 2, 2], "x": [1, 2, 3, 4]}
    )
    real = whole.set_column(3, "x", pa.array([2.5, 2.0, 2.25, 4.5]))
    texts = whole.set_column(2, "key", pa.array(["u", "v", "u", "u"]))
    for table in (whole, real, real, texts, whole, texts.slice(0, 3), real.slice(1)):
        fresh = cepheid.workload(RULES)
        found = rules.run(table, separate=True)
        expected = fresh.run(table, separate=True)
        assert all(found[name].equals(expected[name]) for name in RULES), table
        assert rules.shared(table.schema) is rules.shared(table.schema)
    assert rules.shared(whole.schema) is not rules.shared(real.schema)
    assert rules == cepheid.workload(RULES), "what is kept is no part of the value"
