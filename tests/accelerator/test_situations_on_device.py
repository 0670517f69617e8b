"""Situations on a simulated GPU are those of the oracle, at once and live."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accelerator.test_live_on_device import Alternating
from tests.engine.comparison import same_rows
from tests.situations.cases import Case, cases
from tests.situations.test_situations import SCHEMA, table_of

import cepheid
from cepheid.accelerator import stretching
from cepheid.kernels.stretches import cut_stretches
from cepheid.kinds.situation import device as device_situations
from cepheid.kinds.situation import stretches as host_stretches
from cepheid.testing import evaluate

pytestmark = pytest.mark.timeout(300)
FEW = 9
MORE = 2 * settings().max_examples


@settings(max_examples=MORE)
@given(cases(relative=True))
def test_random_queries_give_the_rows_of_the_oracle(case: Case) -> None:
    query = cepheid.query(case.query)
    found = query.run(table_of(case.events), device="gpu").to_pylist()
    assert found == evaluate(query.tree, case.events)


@settings(max_examples=MORE)
@given(cases(relative=True), st.integers(1, 4), st.booleans())
def test_micro_batches_may_run_on_both(case: Case, size: int, saved: bool) -> None:  # noqa: FBT001  # Hypothesis gives it
    query, table = cepheid.query(case.query), table_of(case.events)
    scheduler = Alternating()
    running = query.live(SCHEMA, device="gpu")
    running._job.cutting.placing.scheduler = scheduler
    rows: list[dict[str, Any]] = []
    for begin in range(0, len(table), size):
        rows += running.feed(table.slice(begin, size)).to_pylist()
        if saved:
            running = query.live(SCHEMA, state=running.save(), device="gpu")
            running._job.cutting.placing.scheduler = scheduler
    rows += running.close().to_pylist()
    assert rows == evaluate(query.tree, case.events)


def many(length: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {
        "ts": pa.array(np.sort(rng.integers(0, 500, length))),
        "k": pa.array(rng.choice(["a", "b", "c"], length)),
        "n": pa.array(np.cumsum(rng.integers(-1, 2, length))),
        "x": pa.array(rng.integers(-4, 4, length).astype(np.float64)),
        "gaps": pa.array([None if v % 3 == 0 else v for v in range(length)], pa.int64()),
        "big": pa.array(rng.integers(2**61, 2**62, length)),
    }
    return pa.table(columns)


QUERIES = [
    "FROM s DEFINE A AS n > 0 SITUATIONS A "
    "RETURN COUNT(A), SUM(A.x), MAX(A.n), MIN(A.x), LAST(A.k)",
    "FROM s PARTITION BY k WHERE x <> 3.0 DEFINE A AS n > 0 AT LEAST 3 us, B AS x > 0.0 AND n < 9 "
    "SITUATIONS A, B RETURN AVG(A.n), MAX(B.x)",
    "FROM s PARTITION BY k DEFINE A AS n > 2 AT LEAST 2 EVENTS, B AS x >= 0.0 "
    "PATTERN A overlaps;contains;finished by B RETURN COUNT(A), SUM(B.x), LAST(A.n)",
    "FROM s DEFINE A AS n > 2 AT LEAST 4 us, B AS x >= 0.0 AT LEAST 2 EVENTS PATTERN A during B "
    "DETECTED WITHIN 90 us RETURN MIN(A.n), COUNT(B)",
    "FROM s DEFINE A AS n > PREV(n), B AS x < 0.0 PATTERN A before B WITHIN 9 us",
    "FROM s DEFINE A AS x > 0.0 SITUATIONS A "
    "RETURN SUM(A.gaps), COUNT(A.gaps), SUM(A.big), MAX(A.big)",
    "FROM s PARTITION BY k WHERE n > 10000 DEFINE A AS x > 0.0 SITUATIONS A RETURN LAST(A.x)",
]


@pytest.mark.parametrize("text", QUERIES)
def test_many_blocks_give_what_the_cpu_gives(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of these doubles are exact in every order."""
    query, table = cepheid.query(text), many()
    expected = query.run(table).to_pylist()
    cut = cut_stretches

    def cut_few(key: Any, *rest: Any) -> Any:
        assert len(key) < FEW, "the device cuts all but the events of the last time"
        return cut(key, *rest)

    monkeypatch.setattr(host_stretches, "cut_stretches", cut_few)
    assert same_rows(query.run(table, device="gpu").to_pylist(), expected)
    # In steps, as a table that is too long for a device.
    monkeypatch.setattr(device_situations, "BATCH_ROWS", 90)
    assert same_rows(query.run(table, device="gpu").to_pylist(), expected)


def test_conditions_on_numbers_are_evaluated_there(monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[tuple[Any, ...]] = []
    cut = stretching.cut_there

    def noting(columns: Any, own: Any, *rest: Any, **more: Any) -> Any:
        forms.extend(own)
        return cut(columns, own, *rest, **more)

    monkeypatch.setattr(stretching, "cut_there", noting)
    text = "FROM s DEFINE A AS n > 2, B AS x >= 0.5 AND n < 9, C AS k = 'a' SITUATIONS A, B, C"
    cepheid.query(text).run(many(40), device="gpu")
    assert [form[0] for form in forms] == ["and", "and", "known"], "texts are for the host"
