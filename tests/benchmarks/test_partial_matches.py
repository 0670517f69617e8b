"""The engine of partial matches finds as many matches as Cepheid lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from benchmarks.baselines.partial_matches import BIG_AFTER_SMALL, V_SHAPE, build_matches
from benchmarks.match_cases import QUERIES, ticks

import cepheid

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


@pytest.mark.parametrize(
    ("name", "number"), [("v-shape", V_SHAPE), ("big-after-small", BIG_AFTER_SMALL)]
)
@pytest.mark.slow
def test_as_many_matches(name: str, number: int) -> None:
    events = ticks(600, 3, name)
    built = build_matches(events["key"], events["ts"], events["price"], number, 36)
    listed: Any = cepheid.query(QUERIES[name].format(within=36)).run(pa.table(events))
    assert built.is_complete
    assert built.matches == len(listed) > 50
    assert built.events == sum(len(row) for row in listed["events"].to_pylist())
