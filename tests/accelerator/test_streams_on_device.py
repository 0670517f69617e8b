"""Codes in the memory of the host give the same counts."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.thesis_operators import streams
from benchmarks.thesis_operators.persistent import PersistentCounter

from cepheid.accelerator import linear
from cepheid.accelerator.systems import system_of
from cepheid.api import query
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.plans.plan import TrendPlan

pytestmark = pytest.mark.timeout(300)
TEXT = "RETURN COUNT(*) PATTERN (SEQ(A+, B))+"
SCHEMA = {"ts": "int", "type": "string"}
SIZES = linear.Sizes(4, 3, 8)


def device_of(job: Job) -> linear.DeviceSystem:
    """Return the system of a job on the device."""
    program = job.programs[0]
    system = system_of(program, *job.columns_of(program))
    assert system is not None
    return linear.DeviceSystem(system)


def test_codes_of_the_host_are_counted_in_batches_and_at_once() -> None:
    job = lower(TrendPlan.of(query(TEXT, schema=SCHEMA).plan))
    device = device_of(job)
    codes = streams.pinned(120)
    codes[:] = np.random.default_rng(1).integers(0, 3, 120)
    nothing = np.zeros((0, 120))
    expected, _ = linear.summarise(
        device, codes, nothing, nothing.astype(np.int64), np.array([0, 120]), SIZES
    )
    found, right = streams.count_from_host(device, codes.view(np.uint64), 4, SIZES)
    assert right
    assert np.allclose(found, expected[0])
    counter = streams.SmallCounter(device, 128, 4)
    assert np.allclose(counter.count(codes), expected[0])


def test_a_kernel_that_stays_counts_batch_after_batch() -> None:
    device = device_of(lower(TrendPlan.of(query(TEXT, schema=SCHEMA).plan)))
    batches = np.random.default_rng(2).integers(0, 3, (2, 16)).astype(np.uint8)
    nothing = np.zeros((0, 16))
    # The simulator has one kernel at a time, so these come first.
    expected = [
        linear.summarise(
            device, codes, nothing, nothing.astype(np.int64), np.array([0, 16]), SIZES
        )[0][0]
        for codes in batches
    ]
    # One that is patient, and one that gives up at once and is started again.
    for looks in (10**9, 1):
        with PersistentCounter(device, 16, chunk_words=1, looks_max=looks) as counter:
            for codes, matrix in zip(batches, expected, strict=True):
                assert np.allclose(counter.count(codes), matrix)
            assert not counter.narrow
