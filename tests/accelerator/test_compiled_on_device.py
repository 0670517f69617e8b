"""Kernels made for one system give what the kernel that looks into tables gives."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.thesis_operators.compiling import aggregate_compiled, spec_of
from numba import cuda

from cepheid.accelerator import linear
from cepheid.accelerator.systems import system_of
from cepheid.api import query
from cepheid.kinds.trend.program.job import lower
from cepheid.plans.plan import TrendPlan

pytestmark = pytest.mark.timeout(300)
SCHEMA = {"ts": "int", "type": "string", "price": "double"}
TEXTS = [
    "RETURN COUNT(*), SUM(A.price), MIN(A.price) PATTERN (SEQ(A+, B))+",
    "RETURN COUNT(*), MAX(B.price) PATTERN SEQ(A, B+) SEMANTICS skip-till-next-match",
    "RETURN COUNT(*), SUM(B.price) PATTERN SEQ(A, B+) SEMANTICS contiguous",
    "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B+) TIES arrival",
]


@pytest.mark.parametrize("text", TEXTS)
def test_compiled_systems_give_the_same_matrices(text: str) -> None:
    job = lower(TrendPlan.of(query(text, schema=SCHEMA).plan))
    program = job.programs[0]
    system = system_of(program, *job.columns_of(program))
    assert system is not None
    device = linear.DeviceSystem(system)
    assert spec_of(system) is not None
    rng, length = np.random.default_rng(1), 90
    codes = rng.integers(0, system.identity, length).astype(np.uint8)
    weights = rng.normal(size=(max(device.parts - 1, 1), length))
    weights[0, 5] = np.inf if "SUM(B" in text else 1.0
    values = rng.integers(-9, 9, (max(device.mins, 1), length))
    sizes = linear.Sizes(4, 6, 8)
    ptr, _ = linear.cut(np.array([0, 33, length]), sizes)
    events = (cuda.to_device(codes), cuda.to_device(weights), cuda.to_device(values))
    flags = cuda.to_device(np.zeros(1, np.int32))
    d_ptr = cuda.to_device(ptr)
    expected = device.aggregate(events, d_ptr, sizes, flags, wide=False)
    found = aggregate_compiled(device, events, d_ptr, sizes, flags)
    a, b = expected.numbers.copy_to_host(), found.numbers.copy_to_host()
    assert np.allclose(a, b, equal_nan=True)
    if device.mins:
        assert np.array_equal(expected.values.copy_to_host(), found.values.copy_to_host())
    assert not flags.copy_to_host()[0] or np.isinf(weights).any()


def test_long_chunks_share_an_exponent() -> None:
    job = lower(TrendPlan.of(query(TEXTS[0], schema=SCHEMA).plan))
    system = system_of(job.programs[0], *job.columns_of(job.programs[0]))
    assert system is not None
    device = linear.DeviceSystem(system)
    codes = np.full(600, 1, np.uint8)
    events = (
        cuda.to_device(codes),
        cuda.to_device(np.ones((device.parts - 1, 600))),
        cuda.to_device(np.zeros((1, 600), np.int64)),
    )
    flags = cuda.to_device(np.zeros(1, np.int32))
    ptr = cuda.to_device(np.array([0, 600]))
    sizes = linear.Sizes(2, 1, 8)
    expected = device.aggregate(events, ptr, sizes, flags, wide=False)
    assert (expected.numbers.copy_to_host()[..., 1] > 0).any()
    found = aggregate_compiled(device, events, ptr, sizes, flags)
    assert np.allclose(found.numbers.copy_to_host(), expected.numbers.copy_to_host())
