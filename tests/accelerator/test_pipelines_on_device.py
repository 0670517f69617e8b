"""Pipelines on a simulated GPU give what the oracle gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from tests.pipeline.comparison import KINDS, expected_rows, plain, plan_of, planned
from tests.pipeline.drawing import Drawn, pipelines

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.pipeline.kind import NOT_STEPPED
from cepheid.runtimes import device as runtime

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:no event has the type"),
]


# Many pipelines have a stage that is not for a device.
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(pipelines())
def test_random_pipelines_give_what_the_oracle_gives(drawn: Drawn) -> None:
    plan = plan_of(drawn)
    assume(not kind_of(plan).why_not_on_device(plan))
    table = pa.Table.from_pylist(drawn.events, KINDS)
    assert plain(planned(drawn).run(table, device="gpu")) == expected_rows(drawn)


STAGES = """
CREATE STREAM Load AS SELECT k, SUM(x) AS total FROM s WHERE z > 1.0 GROUP BY k WINDOW 8 us;
CREATE STREAM Pairs AS RETURN k, COUNT(*) AS n PATTERN SEQ(A, B) WHERE [k] GROUP-BY k
WITHIN 10 us SLIDE 5 us;
SELECT k, n FROM Pairs WHERE n > 1
"""


def test_stages_of_all_kinds_hand_rows_on() -> None:
    rows = [
        {"ts": n, "type": "AB"[n % 2], "k": "pq"[n // 2 % 2], "x": n % 5, "z": n % 4}
        for n in range(60)
    ]
    query, table = cepheid.query(STAGES), pa.Table.from_pylist(rows, KINDS)
    found, expected = query.run(table, device="gpu"), query.run(table)
    assert len(expected)
    assert plain(found) == plain(expected)
    assert runtime.least_rows(query.plan) == runtime.NEVER, "it was not measured, or slower"


def test_a_stage_that_needs_all_events_is_refused() -> None:
    text = "CREATE STREAM M AS RETURN MATCHES PATTERN SEQ(A, B) WITHIN 9 us; SELECT * FROM M"
    table = pa.Table.from_pylist([], KINDS)
    with pytest.raises(UnsupportedError) as caught:
        cepheid.query(text).run(table, device="gpu")
    assert NOT_STEPPED in caught.value.diagnostics[0].message
