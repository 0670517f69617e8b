"""What a worker does before a task."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from cepheid.spark import worker as spark_worker


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be a new worker."""
    monkeypatch.setattr(spark_worker, "_begun", 0)
    monkeypatch.setattr(spark_worker, "TaskContext", SimpleNamespace(get=object))
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("worker")
def test_what_is_loaded_is_no_garbage_after_every_task() -> None:
    spark_worker.begin_task()
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    loaded = [[n] for n in range(1000)]
    spark_worker.begin_task()
    assert gc.get_freeze_count() > frozen + len(loaded) // 2


@pytest.mark.usefixtures("worker")
def test_what_later_tasks_leave_is_collected() -> None:
    for _ in range(spark_worker.FREEZES):
        spark_worker.begin_task()
    frozen = gc.get_freeze_count()
    left = [[n] for n in range(1000)]
    spark_worker.begin_task()
    assert left
    assert gc.get_freeze_count() <= frozen


def test_a_driver_keeps_its_garbage() -> None:
    frozen = gc.get_freeze_count()
    spark_worker.begin_task()
    assert gc.get_freeze_count() <= frozen
