"""The cost model of Spark's strategies: what it prefers, and the file with unit costs."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cepheid import query
from cepheid.plans.needs import Strategy
from cepheid.runtimes import task_rates
from cepheid.runtimes.scan import RowGroup, Unit
from cepheid.runtimes.spark.choice import choose_for_files, facts_of_replay, facts_of_units
from cepheid.runtimes.spark.costs import Estimate, Facts, estimate
from cepheid.runtimes.task_rates import TaskRates, read_task_rates, write_task_rates

COUNT = "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key"
TREND = "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key"
MANY = Facts(rows=50_000_000, columns=3, span=3_600_000_000, cores=8, partitions=8)


def best(text: str, facts: Facts) -> Estimate:
    return estimate(query(text).plan, facts, TaskRates())[0]


def test_few_events_run_in_one_task_without_a_pass() -> None:
    few = MANY._replace(rows=1000, profiled=False, in_order=True)
    found = best(COUNT, few)
    assert (found.strategy, found.tasks) == (Strategy.KEY_SHUFFLE, 1)
    assert {"look at times", "look at keys"}.isdisjoint(name for name, _ in found.parts)


def test_partitions_in_order_are_summarised_where_they_are() -> None:
    assert best(COUNT, MANY._replace(in_order=True, pairs=1e-4)).strategy is Strategy.COMBINE


def test_matrices_that_are_no_smaller_than_events_are_not_made() -> None:
    counted = MANY._replace(in_order=True, pairs=0.9, spread=8)
    assert best(COUNT, counted).strategy is Strategy.KEY_SHUFFLE


def test_tasks_that_read_files_themselves_save_the_way_through_the_jvm() -> None:
    text = f"{TREND} WITHIN 2 s SLIDE 2 s"
    for facts in (MANY, MANY._replace(rows=1000), MANY._replace(spread=8)):
        assert best(text, facts._replace(parts=8)).seconds < best(text, facts).seconds
    # What is in order is summarised where it is, and that takes rows of Spark.
    ordered = MANY._replace(in_order=True, pairs=1e-4)
    assert best(COUNT, ordered).strategy is Strategy.COMBINE
    assert best(COUNT, ordered._replace(parts=8)).strategy is Strategy.KEY_SHUFFLE


def test_few_tasks_read_all_files_each_and_many_send_events() -> None:
    for cores, first in ((2, "read all and run"), (8, "send")):
        facts = MANY._replace(cores=cores, parts=8, keeps=True, spread=cores)
        names = [name for name, _ in best(TREND, facts).parts]
        assert names[0] == first
    assert best(TREND, MANY._replace(cores=2, parts=8, spread=2)).parts[0][0] == "send"


def test_a_row_costs_more_than_its_values() -> None:
    narrow, wide = (
        dict(best(COUNT, MANY._replace(columns=columns, rows=1000)).parts)["send"]
        for columns in (1, 10)
    )
    assert narrow < wide < 10 * narrow


def test_a_heavy_key_is_cut_by_time_where_windows_are_short() -> None:
    heavy = MANY._replace(spread=8, ratio=5.0)
    assert best(f"{TREND} WITHIN 2 s SLIDE 2 s", heavy).strategy is Strategy.TIME_SHUFFLE
    assert best(f"{TREND} WITHIN 1 h SLIDE 1 h", heavy).strategy is Strategy.KEY_SHUFFLE


def test_more_work_gets_more_tasks_and_no_more_than_the_user_said() -> None:
    text = f"{TREND} WITHIN 2 s SLIDE 2 s"
    tasks = [best(text, MANY._replace(rows=10**power)).tasks for power in range(3, 10)]
    assert tasks == sorted(tasks)
    assert (tasks[0], tasks[-1] > MANY.cores) == (1, True)
    assert best(text, MANY._replace(given=3)).tasks == 3


def test_of_strategies_nearly_as_fast_the_one_with_fewer_tasks_runs() -> None:
    some = Facts(rows=150_000, columns=4, span=10**9, cores=2, partitions=2, parts=1, dated=True)
    text = f"{TREND} WITHIN 2 s SLIDE 2 s"
    first, second = estimate(query(text).plan, some, TaskRates())[:2]
    assert (first.tasks, second.tasks) == (1, 2)
    assert second.seconds < first.seconds < 1.2 * second.seconds


def test_estimates_say_what_they_are_made_of() -> None:
    found = best(COUNT, MANY)
    assert str(found).startswith(f"{found.strategy.value}: {found.seconds:.2f} s with ")
    assert found.seconds == pytest.approx(sum(seconds for _, seconds in found.parts))


def units(count: int, rows: int) -> list[Unit]:
    """Return files of one row group each, one after the other, a minute long."""
    minute = 60_000_000
    groups = [RowGroup(f"{n}", 0, rows, n * minute, (n + 1) * minute - 1) for n in range(count)]
    return [Unit((group,), group.first, group.last, rows) for group in groups]


def test_files_in_order_are_read_in_slices() -> None:
    plan = query(f"{TREND} WITHIN 2 s SLIDE 2 s").plan
    chosen = choose_for_files(plan, facts_of_units(units(100, 1_000_000), plan, 8, None))
    assert (chosen.strategy, chosen.slices >= 8) == (Strategy.SCAN_SLICES, True)


def test_windows_as_long_as_the_files_are_not_left_to_one_slice() -> None:
    plan = query(f"{TREND} WITHIN 2 h SLIDE 2 h").plan
    chosen = choose_for_files(plan, facts_of_units(units(100, 1_000_000), plan, 64, None))
    assert chosen.strategy is Strategy.KEY_SHUFFLE


def test_what_indexes_leave_of_a_store_decides_how_it_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(task_rates.FILE_VARIABLE, os.devnull)
    hour = 3_600_000_000
    found = []
    for window, rows in (("2 s", 100_000_000), ("2 s", 10_000), ("6 h", 100_000_000)):
        plan = query(f"{TREND} WITHIN {window} SLIDE {window}").plan
        facts = facts_of_replay(plan, rows, 24 * hour, rows // 5000, 8, None)
        chosen = choose_for_files(plan, facts)
        found.append((chosen.strategy, chosen.slices >= 8))
    # Windows of six hours of a day are read by one task, or by all tasks nearly whole.
    assert found[:2] == [(Strategy.SCAN_SLICES, True), (Strategy.SCAN_SLICES, False)]
    assert found[2] == (Strategy.KEY_SHUFFLE, False)


def test_the_file_of_unit_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache" / "rates"
    monkeypatch.setenv(task_rates.FILE_VARIABLE, str(path))
    assert read_task_rates() == TaskRates()
    mine = msgspec.structs.replace(TaskRates(), task_ms=7.0)
    assert write_task_rates(mine) == path
    assert read_task_rates() == mine
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b"7.0", b"8.0"), b"{}"):
        path.write_bytes(damaged)
        task_rates._read.cache_clear()
        assert read_task_rates() == TaskRates(), damaged
    write_task_rates(msgspec.structs.replace(TaskRates(), task_ms=-1.0))
    assert read_task_rates() == TaskRates()
    monkeypatch.delenv(task_rates.FILE_VARIABLE)
    assert task_rates.rates_file().name == "task-rates"
