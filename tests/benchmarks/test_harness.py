"""Tests what measures: streams, processes with a limit, tables and charts."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from benchmarks import charts, linear, methods, ours, streams
from benchmarks.measure import ROOT, forget_peak, measure, peak_mb
from benchmarks.tasks import Measurement, Task, Timing
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def measured(method: str, seconds: float, check: float = 1.0, size: int = 1_000) -> Measurement:
    timing = Timing(method, size, seconds, check)
    return Measurement(Task("any", method, size, 10.0), "ok", (timing,), 200.0, 5.0)


def printed(*found: Measurement) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(linear.as_table(linear.EXPERIMENTS[0], found))
    return capture.get()


# Streams ----------------------------------------------------------------------------------------


def test_streams_are_drawn_again_from_their_seed() -> None:
    one, two = (streams.uniform(1_000, key_count=7, prices=True) for _ in range(2))
    assert one.table().equals(two.table())
    assert not one.table().equals(streams.uniform(1_000, key_count=7, prices=True, seed=8).table())


@pytest.mark.parametrize("make", [streams.uniform, streams.stock])
def test_times_rise_strictly(make: Callable[[int], streams.Stream]) -> None:
    assert (np.diff(make(10_000).times_us) > 0).all()


def test_table_has_the_columns_that_queries_name() -> None:
    table = streams.uniform(5, key_count=2, prices=True).table()
    assert table.schema.names == ["ts", "type", "key", "price"]
    assert table.schema.field("ts").type == pa.timestamp("us")
    assert streams.uniform(5).table().schema.names == ["ts", "type"]


def test_stock_prices_walk_per_company() -> None:
    stream = streams.stock(10_000, company_count=3)
    for company in range(3):
        prices = stream.prices[stream.key_codes == company]
        assert np.abs(np.diff(prices)).max() <= 2


# Processes --------------------------------------------------------------------------------------


def test_a_task_is_measured_in_its_own_process() -> None:
    task = Task("any", "cogra", 1_000, limit_s=30.0, budget_s=0.0)
    found = measure(task)
    assert found.status == "ok", found.message
    assert found.timing is not None
    assert found.timing.check == methods.prepare(task)[0].run()
    assert found.peak_mb > found.working_mb


CHILD = "from benchmarks.measure import peak_mb; print(peak_mb())"
PARENT = """
import subprocess, sys
held = b"x" * (500 << 20)
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


def test_a_process_does_not_report_the_memory_of_its_parent() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 1 < float(done.stdout) < 400


def test_peak_is_that_of_what_was_held_and_can_be_forgotten() -> None:
    held = b"x" * (100 << 20)
    highest = peak_mb()
    assert highest > 100
    del held
    forget_peak()
    assert peak_mb() < highest - 50


def test_process_that_has_ended_has_no_peak() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert peak_mb(child.pid) == 0


@pytest.mark.slow
def test_a_task_that_exceeds_its_limit_is_stopped() -> None:
    # A million events make 10^11 edges.
    found = measure(Task("any", "greta", 1_000_000, limit_s=0.01))
    assert (found.status, found.timings) == ("limit", ())


@pytest.mark.slow
def test_an_experiment_that_does_not_exist_fails_with_its_reason() -> None:
    assert "KeyError" in measure(Task("none", "cogra", 10, limit_s=1.0)).message


def test_cepheid_that_cannot_run_queries_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepheid.query", lambda _: object())
    with pytest.raises(ours.NotConnectedError, match="only the baselines are measured"):
        ours.run("a query of this test alone", streams.uniform(5).table())


# Tables and charts ------------------------------------------------------------------------------


def test_table_shows_ratios_and_limits() -> None:
    limit = Measurement(Task("any", "sase", 1_000, 10.0), "limit", peak_mb=170.0)
    text = printed(measured("ours", 0.001), measured("greta", 0.25), limit)
    assert [line.split()[-2] for line in text.splitlines() if "GRETA" in line] == ["250"]
    assert "> 10 s" in text


def test_answers_that_differ_are_told() -> None:
    found = [measured("cogra", 1.0, 5.0), measured("greta", 1.0, 5.0 + 1e-12)]
    assert not list(linear.disagreements(found))
    (difference,) = linear.disagreements([*found, measured("aseq", 1.0, 6.0)])
    assert difference == "any, 1,000: A-Seq gives 6.0, cogra gives 5.0"


def test_charts_are_written(tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="needs the extra `charts`")
    pytest.importorskip("vl_convert", reason="needs the extra `charts`")
    found = [measured("ours", 0.001, size=size) for size in (1_000, 10_000)]
    (file,) = charts.draw(found, tmp_path)
    assert file.read_bytes().startswith(b"\x89PNG")
