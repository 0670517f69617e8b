"""Whatever fails on a device: E554 if it was asked for, and the rows of the CPU with ``auto``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import cuda
from tests.accelerator import simulated
from tests.engine.comparison import same_rows

import cepheid
from cepheid.accelerator import device, failures, lanes, room
from cepheid.accelerator.experience import Experience
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.errors import UnsupportedError
from cepheid.kinds.trend import tasks_on_gpu
from cepheid.kinds.trend.device import trends
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer, Summariser
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes import device as runtime
from cepheid.runtimes import workload_device

pytestmark = pytest.mark.timeout(300)

QUERIES = {
    "pattern": "RETURN COUNT(*), MIN(A.price) PATTERN (SEQ(A+, B))+",
    "by key": "RETURN key, SUM(A.price) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key "
    "WITHIN 20 us SLIDE 5 us",
    "edges": "RETURN COUNT(*), MAX(S.price) PATTERN A S+ WHERE S.price > NEXT(S).price",
    "windows without SLIDE": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 9 us",
    "windows of events": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 EVENTS SLIDE 20 EVENTS",
    "matches": "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 3 us",
    "sweep": "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.price > SWEEP p (0 TO 8 STEP 2)",
    "situations": "DEFINE U AS price > 4, D AS price < 3 PATTERN U before D WITHIN 9 us",
    "filter": "SELECT ts, price FROM s WHERE price > 4.0",
    "aggregate": "SELECT type, SUM(price), MAX(price) FROM s GROUP BY type WINDOW 20 us",
    "row pattern": "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(U.price) AS p "
    "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (D U+) "
    "DEFINE U AS U.price > 4.0, D AS D.price < 4.0)",
}
LIVE = {
    name: text + more
    for name, text, more in [
        ("pattern", QUERIES["pattern"], " WITHIN 20 us SLIDE 5 us"),
        ("filter", QUERIES["filter"], ""),
        ("aggregate", QUERIES["aggregate"], ""),
        ("situations", QUERIES["situations"], ""),
    ]
}
PLACES = ("stream", "device_array", "to_device", "launch", "later launch")


class CudaAPIError(Exception):
    """What a driver raises."""

    __module__ = "numba.cuda.cudadrv.driver"


def events(length: int = 60) -> pa.Table:
    rng = np.random.default_rng(1)
    columns = {
        "ts": np.arange(length),
        "type": rng.choice(["A", "B"], length),
        "price": rng.integers(0, 9, length).astype(np.float64),
        "key": rng.choice(["x", "y"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``auto`` take the simulator for everything, as long as it works."""

    def choose(own: Scheduler, events: int) -> Place:
        del events
        return own.forced or Place.GPU

    monkeypatch.setattr(failures, "_told", set())
    monkeypatch.setattr(room, "_most", [room.UNLIMITED])
    monkeypatch.setattr(runtime, "find_device", lambda: (device.Found.GPU, "simulated"))
    monkeypatch.setattr(runtime, "least_rows", lambda _: 0)
    monkeypatch.setattr(runtime, "_EXPERIENCE", Experience())
    monkeypatch.setattr(workload_device, "SMALL_ROWS", 0)
    monkeypatch.setattr(Scheduler, "choose", choose)
    monkeypatch.setattr(trends.Trends, "is_worth_it", lambda _: True)


def broken(place: str, monkeypatch: pytest.MonkeyPatch, why: str = "CUDA_ERROR_UNKNOWN") -> None:
    """Let the device fail somewhere: where it allocates, copies, or launches a kernel."""

    def fail(*_: Any, **__: Any) -> Any:
        message = f"[1] Call to cuSomething results in {why}\nmore"
        raise CudaAPIError(message)

    if not place.endswith("launch"):
        monkeypatch.setattr(cuda, place, fail)
        return
    left = [0 if place == "launch" else 2]

    def launched(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            fail()

    monkeypatch.setattr(simulated, "note_launch", launched)


def heard(work: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return a result and the messages of its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = work()
    return found, [str(one.message) for one in told if "W501" in str(one.message)]


def one_code(work: Callable[[], Any]) -> bool:
    """Check that work fails with E554; False if it does not fail, because nothing was needed."""
    try:
        work()
    except UnsupportedError as error:
        (found,) = error.diagnostics
        assert (found.code, found.message) == (
            "E554",
            "the GPU does not work: CudaAPIError: "
            "[1] Call to cuSomething results in CUDA_ERROR_UNKNOWN",
        )
        return True
    return False


@pytest.mark.parametrize("name", QUERIES)
def test_a_table_is_answered_wherever_the_device_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, table = cepheid.query(QUERIES[name]), events()
    expected = query.run(table).to_pylist()
    failed = 0
    for place in PLACES:
        with monkeypatch.context() as patch:
            patch.setattr(failures, "_told", set())
            broken(place, patch)
            found, told = heard(lambda: query.run(table, device="auto"))
            assert same_rows(found.to_pylist(), expected), place
            assert len(told) <= 1, place
        with monkeypatch.context() as patch:
            broken(place, patch)
            fails = one_code(lambda: query.run(table, device="gpu"))
        # The CPU may have taken all batches before the device has started, and lanes cut batches by
        # the time that they take: the other run may have had more launches.
        assert fails or not told or place == "later launch", place
        failed += fails
    assert failed >= 3, "it was no use to let these places fail"


def test_a_join_is_answered_wherever_the_device_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT a.ts, b.price FROM a JOIN b ON a.price < b.price WINDOW 2 us"
    query, streams = cepheid.query(text), {"a": events(), "b": events(40)}
    expected = query.run(streams).to_pylist()
    for place in PLACES[1:]:
        with monkeypatch.context() as patch:
            patch.setattr(failures, "_told", set())
            broken(place, patch)
            found, told = heard(lambda: query.run(streams, device="auto"))
            assert same_rows(found.to_pylist(), expected), place
            assert len(told) == 1, place
            assert one_code(lambda: query.run(streams, device="gpu")), place


def fed(running: Any, table: pa.Table) -> list[dict[str, Any]]:
    parts = [running.feed(table.slice(begin, 20)) for begin in range(0, len(table), 20)]
    return [row for part in (*parts, running.close()) for row in part.to_pylist()]


@pytest.mark.parametrize("name", LIVE)
def test_a_live_query_goes_on_wherever_the_device_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, table = cepheid.query(LIVE[name]), events()
    expected = fed(query.live(table.schema), table)
    failed = 0
    for place in PLACES:
        with monkeypatch.context() as patch:
            patch.setattr(failures, "_told", set())
            broken(place, patch)
            found, told = heard(lambda: fed(query.live(table.schema, device="auto"), table))
            assert same_rows(found, expected), place
            assert len(told) <= 1, place
        with monkeypatch.context() as patch:
            broken(place, patch)
            fails = one_code(lambda: fed(query.live(table.schema, device="gpu"), table))
        assert fails == bool(told), place
        failed += fails
    assert failed >= 2


@pytest.mark.parametrize("place", PLACES)
def test_a_task_of_spark_goes_on_wherever_its_device_fails(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = events()
    job = lower(TrendPlan.of(cepheid.query(QUERIES["by key"]).with_schema(table.schema).plan))
    monkeypatch.setattr(tasks_on_gpu, "task_address", lambda: "0")
    monkeypatch.setattr(tasks_on_gpu, "scheduler_of", lambda _: Scheduler())

    def rows(summariser: Summariser) -> Any:
        composer = Composer(lower(job.plan))
        for begin in range(0, 60, 20):
            summariser.feed(table.slice(begin, 20), last=begin == 40)
        keys, summaries = summariser.close()
        composer.add(key_table(keys, np.arange(len(keys)), table.schema), summaries)
        return build_table(job, composer.finish(), composer.keys, table.schema).to_pylist()

    expected = rows(Summariser(lower(job.plan)))
    broken(place, monkeypatch)
    found, told = heard(lambda: rows(tasks_on_gpu.summariser_of(lower(job.plan))))
    assert same_rows(found, expected)
    assert len(told) == 1


def test_a_full_device_takes_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of this one has room for 16 events."""
    allocate, refused = cuda.device_array, [0]

    def device_array(shape: Any, *args: Any, **options: Any) -> Any:
        if np.ndim(shape) and len(shape) == 2 and shape[1] > 16:
            refused[0] += 1
            message = "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"
            raise CudaAPIError(message)
        return allocate(shape, *args, **options)

    monkeypatch.setattr(cuda, "device_array", device_array)
    query, table = cepheid.query(QUERIES["situations"]), events()
    with pytest.raises(UnsupportedError, match="OUT_OF_MEMORY"):
        query.run(table, device="gpu")
    monkeypatch.setattr(room, "LEAST_EVENTS", 4)
    refused[0] = 0
    found, told = heard(lambda: query.run(table, device="gpu"))
    assert same_rows(found.to_pylist(), query.run(table).to_pylist())
    assert (refused, told, room.events_at_once(100)) == ([1], [], 15)
    assert room.takes_fewer(60) is False
    assert room.events_at_once(8) == 8


def test_pinned_memory_may_be_ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    broken("pinned_array", monkeypatch)
    assert lanes.allocate_pinned(3, np.int64).shape == (3,)
    query, table = cepheid.query(QUERIES["by key"]), events()
    found, told = heard(lambda: query.run(table, device="gpu"))
    assert same_rows(found.to_pylist(), query.run(table).to_pylist())
    assert not told
