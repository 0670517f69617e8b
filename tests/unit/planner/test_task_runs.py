"""Runs that were measured: what they correct, and the file that keeps them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cepheid import query
from cepheid.runtimes import task_rates, task_runs
from cepheid.runtimes.spark.costs import Facts, estimate
from cepheid.runtimes.task_rates import TaskRates, write_task_rates
from cepheid.runtimes.task_runs import note_run, read_corrections, read_task_runs

TREND = "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key"
MANY = Facts(rows=50_000_000, columns=3, span=3_600_000_000, cores=8, partitions=8, spread=8)


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(task_rates.FILE_VARIABLE, str(tmp_path / "rates"))
    monkeypatch.setenv(task_runs.FILE_VARIABLE, str(tmp_path / "runs"))


def test_one_strategy_alone_corrects_nothing() -> None:
    note_run("combine", 10.0, 40.0)
    assert read_task_runs()["combine"].ratio_log2 == 2.0
    assert read_corrections() == {}


def test_what_all_strategies_have_in_common_corrects_nothing() -> None:
    note_run("combine", 10.0, 40.0)
    note_run("key shuffle", 10.0, 40.0)
    assert read_corrections() == {"combine": 1.0, "key shuffle": 1.0}


def test_the_one_that_takes_longer_than_estimated_is_chosen_less() -> None:
    plan = query(f"{TREND} WITHIN 2 s SLIDE 2 s").plan
    first, second = estimate(plan, MANY, TaskRates())[:2]
    for _ in range(3):
        note_run(first.strategy.value, 10.0, 30.0)
        note_run(second.strategy.value, 10.0, 10.0)
    found = read_corrections()
    assert found == {first.strategy.value: 1.73, second.strategy.value: 0.58}
    corrected = estimate(plan, MANY._replace(ratio=1.0), TaskRates(), found)
    by_name = {one.strategy: one for one in corrected}
    assert by_name[first.strategy].seconds == pytest.approx(first.seconds * 1.73)
    assert "times 1.73 by measured runs" in str(by_name[first.strategy])


def test_the_last_runs_count_more_than_those_long_ago() -> None:
    for _ in range(20):
        note_run("combine", 10.0, 40.0)
    for _ in range(20):
        note_run("combine", 10.0, 10.0)
    assert 0.0 < read_task_runs()["combine"].ratio_log2 < 0.2


def test_short_runs_and_runs_of_other_figures_do_not_count(tmp_path: Path) -> None:
    note_run("combine", 1.0, 40.0)
    assert not (tmp_path / "runs").exists()
    note_run("combine", 10.0, 40.0)
    write_task_rates(msgspec.structs.replace(TaskRates(), task_ms=7.0))
    assert read_task_runs() == {}


def test_a_damaged_file_counts_as_none_and_a_device_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_run("combine", 10.0, 40.0)
    whole = (tmp_path / "runs").read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b"2.0", b"3.0"), b"{}"):
        (tmp_path / "runs").write_bytes(damaged)
        assert read_task_runs() == {}, damaged
    monkeypatch.setenv(task_runs.FILE_VARIABLE, os.devnull)
    note_run("combine", 10.0, 40.0)
    assert not Path(os.devnull).is_file()
