"""The CPU and a simulated GPU at the same time: the same result, in order."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows

from cepheid.accelerator import schedule
from cepheid.accelerator.schedule import Pace, Place
from cepheid.api import query
from cepheid.errors import DataError
from cepheid.jobs.local_jobs import slices_of
from cepheid.kinds.trend.device import split as local_split
from cepheid.kinds.trend.device.split import run_split
from cepheid.plans.plan import TrendPlan

pytestmark = pytest.mark.timeout(300)


LEAST = {Place.CPU: 17, Place.GPU: 30}


def pace_of(cpu: int = 1, gpu: int = 2, least: dict[Place, int] = LEAST) -> Pace:
    """Return a pace of small batches, which stay small: nothing is fast in the simulator."""
    return Pace({Place.CPU: cpu, Place.GPU: gpu}, least)


def events(length: int) -> pa.Table:
    """Return events of three types and three keys, some of which come late."""
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.arange(length) * 1000,
        "type": rng.choice(["A", "B", "C"], length),
        "price": rng.normal(size=length),
        "key": np.sort(rng.choice(["x", "y", "z"], length)),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*), SUM(A.price), MIN(B.price) PATTERN (SEQ(A+, B))+",
        "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 40 ms SLIDE 20 ms",
        "RETURN COUNT(*) PATTERN SEQ(A, B, C) SEMANTICS contiguous",
    ],
)
@pytest.mark.parametrize("rows", [23, 150])
def test_batches_of_both_places_are_put_together_in_order(
    text: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "WHILE", 0.0)
    monkeypatch.setattr(local_split.Warmth, "open", lambda *_: True)
    compiled, table = query(text), events(150)
    plan, pace = compiled.with_schema(table.schema).plan, pace_of()
    found = run_split(TrendPlan.of(plan), slices_of(table, rows), table.schema, pace)
    assert same_rows(found.to_pylist(), compiled.run(table).to_pylist())
    assert all(pace.done.values())
    assert sum(pace.done.values()) == len(table)


def test_what_waits_for_a_slow_lane_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch takes long; the other lane may be two batches ahead of it."""
    monkeypatch.setattr(schedule, "WHILE", 0.0)
    monkeypatch.setattr(local_split, "BACKLOG", 2)
    lane = local_split.Lanes._summarise
    begun: list[int] = []

    def slow(lanes: local_split.Lanes, batch: pa.Table) -> local_split.Made:
        begun.append(len(batch))
        if len(begun) == 1:
            time.sleep(0.5)
            assert len(begun) <= 2
        return lane(lanes, batch)

    monkeypatch.setattr(local_split.Lanes, "_summarise", slow)
    compiled, table = query("RETURN COUNT(*) PATTERN SEQ(A+, B)"), events(150)
    plan, pace = compiled.with_schema(table.schema).plan, Pace({Place.CPU: 2}, LEAST)
    found = run_split(TrendPlan.of(plan), [table], table.schema, pace)
    assert same_rows(found.to_pylist(), compiled.run(table).to_pylist())
    assert sum(begun) == len(table)


def test_the_cpu_begins_while_the_device_compiles() -> None:
    compiled, table = query("RETURN COUNT(*) PATTERN SEQ(A+, B)"), events(90)
    plan, pace = compiled.with_schema(table.schema).plan, pace_of()
    found = run_split(TrendPlan.of(plan), slices_of(table, 30), table.schema, pace)
    assert same_rows(found.to_pylist(), compiled.run(table).to_pylist())
    assert pace.done[Place.CPU] > 0


def test_a_mistake_in_a_lane_is_told_once() -> None:
    table = events(60)
    plan = query("RETURN COUNT(*) PATTERN SEQ(A, B)").with_schema(table.schema).plan
    wrong = pa.concat_tables([table.slice(0, 20), table.slice(0, 20), table.slice(40)])
    with pytest.raises(DataError) as caught:
        run_split(TrendPlan.of(plan), slices_of(wrong, 20), table.schema, pace_of())
    assert caught.value.diagnostics[0].code == "E509"


def test_a_lane_takes_what_it_does_in_a_while() -> None:
    pace = Pace({Place.CPU: 1, Place.GPU: 2})
    first = {place: pace.rows(place) for place in Place}
    for place in Place:
        pace.finish(place, first[place], 100.0)
        assert pace.rows(place) == first[place], "the first batch loads kernels"
    pace.finish(Place.CPU, 1_000_000, 1.0)
    pace.finish(Place.GPU, 1_000_000, 0.01)
    assert (pace.rows(Place.CPU), pace.rows(Place.GPU)) == (50_000, schedule.MOST_ROWS)
    for _ in range(40):
        pace.finish(Place.CPU, 1_000, 1.0)
    assert pace.rows(Place.CPU) == first[Place.CPU]
