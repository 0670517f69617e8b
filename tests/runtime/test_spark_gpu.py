"""Tasks that Spark gives a GPU use it; found by a script, simulated by numba."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.comparison import same_rows
from tests.runtime.cluster import environment
from tests.runtime.gpu_tasks import STRATEGIES, TEXT, events
from tests.runtime.test_stream_state import Live

import cepheid
from cepheid.accelerator import device, linear, selecting, stretching
from cepheid.jobs.blobs import blobs_of
from cepheid.jobs.kind import kind_of
from cepheid.jobs.work import Work
from cepheid.kinds.situation.tasks import SituationTasks
from cepheid.kinds.trend import tasks_on_gpu as spark_gpu
from cepheid.kinds.trend.device.summaries import DeviceSummariser
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.windows import panes as live_panes
from cepheid.kinds.trend.windows.summaries import Summariser
from cepheid.plans.plan import TrendPlan
from cepheid.spark import task_device

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)


def in_a_task(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Pretend to be in a task with these GPUs."""
    resources = {"gpu": SimpleNamespace(addresses=list(addresses))} if addresses else {}
    context = SimpleNamespace(resources=lambda: resources)
    monkeypatch.setattr(task_device, "TaskContext", SimpleNamespace(get=lambda: context))


def kind(text: str) -> type[Summariser]:
    return type(
        spark_gpu.summariser_of(
            lower(TrendPlan.of(cepheid.query(text).with_schema(events().schema).plan))
        )
    )


def test_a_task_with_a_gpu_uses_it_where_the_query_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert task_device.task_address() is None, "this is no task"
    in_a_task(monkeypatch)
    assert kind(TEXT) is Summariser
    in_a_task(monkeypatch, "1")
    assert task_device.task_address() == "1"
    assert kind(TEXT) is DeviceSummariser
    job = lower(
        TrendPlan.of(
            cepheid.query("RETURN MATCHES PATTERN SEQ(A, B)").with_schema(events().schema).plan
        )
    )
    assert not spark_gpu.on_device(job)


def test_a_gpu_that_cannot_be_used_leaves_the_work_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_a_task(monkeypatch, "0")
    monkeypatch.setattr(device, "find_device", lambda: (device.Found.NONE, "no driver"))
    with pytest.warns(UserWarning, match="a task has GPU 0, but works on the CPU: no driver"):
        assert kind(TEXT) is Summariser


def test_devices_are_chosen_by_number_or_name(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    gpus = [SimpleNamespace(uuid=f"GPU-{n}", name=b"H") for n in range(3)]
    cuda = SimpleNamespace(
        list_devices=lambda: gpus, select_device=chosen.append, get_current_device=lambda: gpus[0]
    )
    monkeypatch.setattr(device, "find_device", lambda: (device.Found.GPU, "H"))
    monkeypatch.setattr("importlib.import_module", lambda _: cuda)
    assert device.select_device("1") == (device.Found.GPU, "H")
    assert device.select_device("GPU-2") == (device.Found.GPU, "H")
    assert chosen == [1, 2]
    assert device.select_device("GPU-7")[0] is device.Found.NONE


def test_explain_says_what_tasks_with_a_gpu_do() -> None:
    assert "tasks with a GPU: on the GPU" in cepheid.query(TEXT).explain(engine="spark")
    edges = cepheid.query("RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price")
    assert "tasks with a GPU: on the CPU" in edges.explain(engine="spark")


@pytest.mark.slow
@pytest.mark.spark
def test_a_cluster_gives_tasks_the_gpus_that_a_script_finds(tmp_path: Path) -> None:
    script = tmp_path / "gpus.sh"
    script.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["0", "1"]}\'\n')
    script.chmod(0o755)
    variables = environment(tmp_path, NUMBA_ENABLE_CUDASIM="1")
    command = [sys.executable, "-m", "tests.runtime.gpu_tasks", str(script)]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Any = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found["seen"]) == [["0", 300], ["1", 300]]
    expected = cepheid.query(TEXT).run(events()).to_pylist()
    for strategy in STRATEGIES:
        assert same_rows(_numbers(found["rows"][strategy]), _numbers(expected)), strategy


def _numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    texts = [{name: str(value) for name, value in row.items()} for row in rows]
    return sorted(texts, key=lambda row: sorted(row.items()))


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WITHIN 200 us SLIDE 100 us",
        "RETURN COUNT(*), MIN(A.price) PATTERN (SEQ(A+, B))+ WITHIN 60 us SLIDE 60 us",
    ],
)
def test_panes_of_a_stream_are_summarised_on_the_gpu_of_a_task(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, calls = events(), list[int]()
    summarise = linear.summarise

    def counted(*args: Any, **kinds: Any) -> Any:
        calls.append(1)
        return summarise(*args, **kinds)

    def rows() -> list[dict[str, Any]]:
        live = Live(cepheid.query(text), table.schema, delay=0, buckets=2)
        assert live.by_panes
        for begin in range(0, len(table), 75):
            live.feed(table.slice(begin, 75))
        live.finish()
        return live.rows

    monkeypatch.setattr(linear, "summarise", counted)
    # Also panes of few events become matrices.
    monkeypatch.setattr(live_panes, "EVENT_BYTES", 1 << 30)
    in_a_task(monkeypatch)
    expected = rows()
    assert not calls
    in_a_task(monkeypatch, "0")
    assert same_rows(rows(), expected)
    assert calls


def test_windows_of_a_live_select_are_folded_on_the_gpu_of_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, calls = events(), list[int]()
    fold = selecting.fold_columns

    def counted(*args: Any) -> Any:
        calls.append(1)
        return fold(*args)

    text = "SELECT type, COUNT(*), SUM(price) FROM s GROUP BY type WINDOW 60 us SLIDE 20 us"
    plan = cepheid.query(text).with_schema(table.schema).plan
    result = kind_of(plan).stage_steps(plan, table.schema).nothing().schema

    def rows() -> list[dict[str, Any]]:
        job = kind_of(plan).live_job(Work.of(plan, table.schema, result, 1))
        state, found = job.take(job.start(), table, None, int(table["ts"][-1].as_py()) + 1000)
        del state
        return [row for part in found for row in part.to_pylist()]

    monkeypatch.setattr(selecting, "fold_columns", counted)
    in_a_task(monkeypatch)
    expected = rows()
    assert expected
    assert not calls
    in_a_task(monkeypatch, "0")
    assert same_rows(rows(), expected)
    assert calls


def test_situations_are_cut_on_the_gpu_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    table, calls = events(), list[int]()
    cut = stretching.cut_there

    def counted(*args: Any, **kinds: Any) -> Any:
        calls.append(1)
        return cut(*args, **kinds)

    monkeypatch.setattr(stretching, "cut_there", counted)
    text = "DEFINE Dear AS price > 0.5 SITUATIONS Dear RETURN COUNT(Dear), MAX(Dear.price)"
    plan = cepheid.query(text).with_schema(table.schema).plan
    result = kind_of(plan).stage_steps(plan, table.schema).nothing().schema
    job = SituationTasks.of(Work.of(plan, table.schema, result, 1))

    def rows() -> list[Any]:
        blobs = blobs_of(job.summarise([table], 0))
        return [row for batch in job.compose(blobs) for row in batch.to_pylist()]

    in_a_task(monkeypatch)
    expected = rows()
    assert expected
    assert not calls
    in_a_task(monkeypatch, "0")
    assert same_rows(rows(), expected)
    assert calls
