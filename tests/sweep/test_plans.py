"""Plans of sweeps: they are sent as JSON, say how values are answered, and refuse streams."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import CepheidError
from cepheid.plans.sweep import SweepPlan, Way

QUERY = (
    "RETURN k, COUNT(*) AS n PATTERN SEQ(A+, B) WHERE [k] AND A.x > SWEEP least (1, 2.5) "
    "GROUP-BY k HAVING n > SWEEP many (1 TO 3 STEP 1) WITHIN SWEEP(4 s, 8 s) SLIDE 4 s"
)
COLUMNS: dict[str, list[int] | list[str]] = {"ts": [1], "type": ["A"], "k": [1], "x": [1]}
SCHEMA = pa.table(COLUMNS).schema


def test_a_plan_is_sent_as_json() -> None:
    plan = SweepPlan.of(cepheid.query(QUERY).plan)
    assert SweepPlan.from_json(plan.to_json()) == plan
    assert [parameter.way for parameter in plan.parameters] == [Way.ONE_PASS, Way.AFTER, Way.EACH]
    assert len(plan.plans) == 2


def test_explain_says_how_values_are_answered() -> None:
    told = cepheid.query(QUERY).explain()
    assert "for every least and many and sweep_within" in told
    assert "in one pass: each event passes the condition up to one of the values" in told
    assert "after the run: HAVING filters the rows of one run" in told
    assert "2 queries run together, as one workload" in told
    assert "A.x > least" in told


def test_texts_and_decimals_have_a_query_each() -> None:
    schema = {"ts": "timestamp", "type": "string", "x": "decimal(10,2)", "s": "string"}
    for condition in ("A.x > SWEEP(1, 2)", "A.s = SWEEP('a', 'b')", "A.x + SWEEP(1, 2) > 3"):
        text = f"RETURN COUNT(*) PATTERN A WHERE {condition}"
        (parameter,) = SweepPlan.of(cepheid.query(text, schema=schema).plan).parameters
        assert parameter.way is Way.EACH, condition


def test_streams_workloads_and_pipelines_have_no_sweeps() -> None:
    query = cepheid.query(QUERY)
    with pytest.raises(CepheidError, match="E432"):
        query.live(SCHEMA)
    with pytest.raises(CepheidError, match="E430"):
        cepheid.workload({"one": query})
    with pytest.raises(CepheidError, match="E430"):
        cepheid.query(f"CREATE STREAM S AS {QUERY}; SELECT * FROM S")


def test_no_events_give_the_columns_of_a_sweep() -> None:
    found = cepheid.query(QUERY).run(SCHEMA.empty_table())
    assert found.num_rows == 0
    names = ["least", "many", "sweep_within", "k", "window_start", "window_end", "n"]
    assert found.column_names == names
    assert found.schema.types[:3] == [pa.float64(), pa.int64(), pa.duration("us")]
