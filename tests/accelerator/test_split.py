"""The CPU and a simulated GPU at the same time: the same result, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows

from cepheid.accelerator.schedule import Balancer, Place
from cepheid.api import query
from cepheid.errors import DataError
from cepheid.runtime.local import slices_of
from cepheid.runtime.local_split import run_split

pytestmark = pytest.mark.timeout(300)
LANES = {Place.CPU: 1, Place.GPU: 2}


class Turns(Balancer):
    """Gives batches to both places in turn."""

    calls = 0

    def choose(self, events: int) -> Place:
        self.calls += 1
        place = (Place.GPU, Place.CPU, Place.GPU)[self.calls % 3]
        self.waiting[place] += events
        return place


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
@pytest.mark.parametrize("rows", [17, 60])
def test_batches_of_both_places_are_put_together_in_order(text: str, rows: int) -> None:
    compiled, table = query(text), events(150)
    plan, balancer = compiled.with_schema(table.schema).plan, Turns(LANES)
    found = run_split(plan, slices_of(table, rows), table.schema, balancer)
    assert same_rows(found.to_pylist(), compiled.run(table).to_pylist())
    assert all(balancer.scheduler.done.values())
    assert not any(balancer.waiting.values())


def test_the_cpu_begins_while_the_device_compiles() -> None:
    compiled, table = query("RETURN COUNT(*) PATTERN SEQ(A+, B)"), events(90)
    plan, balancer = compiled.with_schema(table.schema).plan, Balancer(LANES)
    found = run_split(plan, slices_of(table, 30), table.schema, balancer)
    assert same_rows(found.to_pylist(), compiled.run(table).to_pylist())
    assert balancer.scheduler.done["cpu"] > 0
    balancer.closed.add(Place.GPU)
    assert balancer.choose(10**9) is Place.CPU
    balancer.closed.clear()
    assert balancer.choose(10**9) is Place.GPU


def test_a_mistake_in_a_lane_is_told_once() -> None:
    table = events(60)
    plan = query("RETURN COUNT(*) PATTERN SEQ(A, B)").with_schema(table.schema).plan
    wrong = pa.concat_tables([table.slice(0, 20), table.slice(0, 20), table.slice(40)])
    with pytest.raises(DataError) as caught:
        run_split(plan, slices_of(wrong, 20), table.schema, Turns(LANES))
    assert caught.value.diagnostics[0].code == "E509"


def test_batches_go_where_they_are_done_first() -> None:
    balancer = Balancer(LANES)
    places = [balancer.choose(4_000_000) for _ in range(40)]
    assert 0 < places.count(Place.CPU) < 5
    for place in places:
        balancer.finish(place, 4_000_000, 1.0 if place is Place.GPU else 0.001)
    assert not any(balancer.waiting.values())
    later = [balancer.choose(4_000_000) for _ in range(40)]
    assert later.count(Place.CPU) > 20
