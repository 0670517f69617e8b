"""A device that does not work: one diagnostic if it was asked for, and the CPU with a warning."""

from __future__ import annotations

import importlib
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows

import cepheid
from cepheid.accelerator import device, failures
from cepheid.accelerator.kernels import trial
from cepheid.accelerator.lanes import Lane
from cepheid.accelerator.schedule import FEW_THREADS
from cepheid.errors import UnsupportedError
from cepheid.kinds.trend.device import split
from cepheid.kinds.trend.device.run import DeviceTrends
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes import device as runtime
from cepheid.runtimes import workload_device

pytestmark = pytest.mark.timeout(300)
TEXT = "RETURN COUNT(*), SUM(A.price) PATTERN (SEQ(A+, B))+"
FALLING = "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price"


class CudaAPIError(Exception):
    """What a driver raises."""

    __module__ = "numba.cuda.cudadrv.driver"


def events(length: int = 60) -> pa.Table:
    rng = np.random.default_rng(1)
    columns = {
        "ts": np.arange(length),
        "type": rng.choice(["A", "B"], length),
        "price": rng.integers(0, 9, length).astype(np.float64),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of earlier tests."""
    monkeypatch.setattr(failures, "_told", set())


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``auto`` use the simulator, also for small tables."""
    monkeypatch.setattr(runtime, "find_device", lambda: (device.Found.GPU, "simulated"))
    monkeypatch.setattr(runtime, "SMALL_PATTERN", 0)
    monkeypatch.setattr(runtime, "SMALL_EDGES", 0)
    monkeypatch.setattr(workload_device, "SMALL_ROWS", 0)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every copy to the device fail."""

    def put(*_: Any) -> Any:
        message = "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\nmore"
        raise CudaAPIError(message)

    monkeypatch.setattr(Lane, "put", put)


def code_of(work: Any) -> tuple[str, str]:
    with pytest.raises(UnsupportedError) as caught:
        work()
    found = caught.value.diagnostics[0]
    return found.code, found.message


def test_a_library_that_cannot_be_loaded_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    load = importlib.import_module

    def broken(name: str, package: str | None = None) -> Any:
        if name == "numba.cuda":
            message = "module 'numpy' has no attribute 'row_stack'"
            raise AttributeError(message)
        return load(name, package)

    monkeypatch.setattr(importlib, "import_module", broken)
    device.find_device.cache_clear()
    try:
        why = "(AttributeError: module 'numpy' has no attribute 'row_stack')"
        assert device.find_device() == (
            device.Found.BROKEN,
            f"numba.cuda cannot be loaded {why}",
        )
        q = cepheid.query(TEXT)
        code, message = code_of(lambda: q.run(events(), device="gpu"))
        assert (code, message) == (
            "E554",
            f"the GPU does not work: numba.cuda cannot be loaded {why}",
        )
        with pytest.warns(UserWarning, match=r"row_stack'\); the CPU goes on \(W501\)"):
            assert q.run(events(), device="auto").equals(q.run(events()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert q.run(events(), device="auto").equals(q.run(events()))
        last = q.explain(engine="gpu").splitlines()[-1]
        assert last.startswith("device  cpu: the GPU does not work: numba.cuda cannot")
    finally:
        device.find_device.cache_clear()


def test_a_first_kernel_that_fails_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    numba, cuda = importlib.import_module("numba"), importlib.import_module("numba.cuda")
    assert trial.adds_one()
    monkeypatch.setattr(numba.config, "ENABLE_CUDASIM", 0)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    gpu = SimpleNamespace(name=b"H")
    monkeypatch.setattr(cuda, "get_current_device", lambda: gpu, raising=False)
    results: list[Any] = [lambda: True, lambda: False, lambda: 1 // 0]
    try:
        for result, expected in zip(
            results, [device.Found.GPU, device.Found.BROKEN, device.Found.BROKEN], strict=True
        ):
            monkeypatch.setattr(trial, "adds_one", result)
            device.find_device.cache_clear()
            assert device.find_device()[0] is expected
    finally:
        device.find_device.cache_clear()


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("text", [TEXT, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 9 us SLIDE 3 us"])
def test_a_device_that_was_asked_for_and_fails_is_a_diagnostic(text: str) -> None:
    q = cepheid.query(text)
    code, message = code_of(lambda: q.run(events(), device="gpu"))
    assert code == "E554"
    assert message.endswith("CUDA_ERROR_OUT_OF_MEMORY")
    workload = cepheid.workload({"a": text, "b": text})
    assert code_of(lambda: workload.run(events(), device="gpu"))[0] == "E554"


@pytest.mark.usefixtures("found", "full")
def test_the_cpu_goes_on_with_the_batches_of_a_device_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(split, "WARM_ROWS", 8)
    q = cepheid.query(TEXT)
    expected = q.run(events()).to_pylist()
    with pytest.warns(UserWarning, match="OUT_OF_MEMORY; the CPU goes on"):
        assert same_rows(q.run(events(), device="auto").to_pylist(), expected)
    batches = events().to_batches(max_chunksize=20)
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert same_rows(q.run(reader, device="auto").to_pylist(), expected)
    workload = cepheid.workload({"a": TEXT})
    assert same_rows(
        workload.run(events(), device="auto").to_pylist(), workload.run(events()).to_pylist()
    )


@pytest.mark.usefixtures("found")
def test_the_cpu_goes_on_where_whole_windows_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("cepheid.kinds.trend.device.trends.count_trends", fail)
    q = cepheid.query(FALLING)
    monkeypatch.setattr("cepheid.kinds.trend.device.trends.Trends.is_worth_it", lambda _: True)
    with pytest.warns(UserWarning, match="the GPU does not work: MemoryError; the CPU goes on"):
        assert q.run(events(), device="auto").equals(q.run(events()))
    batches = events().to_batches()
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert q.run(reader, device="auto").equals(q.run(events()))


def test_mistakes_of_our_own_stay_what_they_are() -> None:
    with pytest.raises(IndexError), failures.reporting_failures():
        [][0]  # noqa: B018, RUF100
    with pytest.raises(failures.DeviceError), failures.reporting_failures():
        importlib.import_module("numba").njit(lambda x: x + "")(1)


def test_auto_leaves_patterns_with_keys_to_the_threads_of_the_cpu() -> None:
    table = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"], "key": ["x", "x", "x"]})
    text = "RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key"
    plan = TrendPlan.of(cepheid.query(text).with_schema(table.schema).plan)
    threads = pa.cpu_count()
    try:
        pa.set_cpu_count(FEW_THREADS)
        assert not runtime.stays_by_keys(plan)
        few = DeviceTrends(plan).answer(table, forced=False)
        assert few is not None
        pa.set_cpu_count(FEW_THREADS + 1)
        assert runtime.stays_by_keys(plan)
        assert DeviceTrends(plan).answer(table, forced=False) is None
        assert DeviceTrends(plan).answer(table, forced=True) == few
    finally:
        pa.set_cpu_count(threads)


def test_edge_predicates_go_to_a_gpu_from_fewer_events_on() -> None:
    edges = cepheid.query("RETURN COUNT(*) PATTERN A S+ WHERE S.x > NEXT(S).x").plan
    others = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B)").plan
    assert runtime.least_rows(edges) < runtime.least_rows(others)
