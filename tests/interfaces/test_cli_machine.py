"""``cepheid doctor`` and ``cepheid warm`` tell what a machine has, lacks and is ready for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cepheid.interfaces import cli_machine
from cepheid.kernels import cache, warm
from cepheid.kernels.costs import listed
from cepheid.runtimes import calibrate, calibrate_tasks
from cepheid.runtimes.task_rates import TaskRates, read_task_rates

PROGRAM = Path(sys.executable).with_name("cepheid")


def run(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [PROGRAM, command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_doctor_shows_versions_java_kernels_and_gpu() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    for word in ("cepheid", "Python", "numba", "Java", "kernels", "GPU", "nothing is wrong"):
        assert word in done.stdout


def test_the_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    done = run("doctor", CEPHEID_CACHE=str(loose), JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert f"! kernels    compiled kernels are not kept: others can write to {loose}" in done.stdout
    assert "kernels: let only yourself write there (`chmod go-w`)" in done.stdout
    assert "Java: Spark needs Java 17 or newer" in done.stdout


def test_warm_refuses_a_folder_that_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = run("warm", CEPHEID_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert "kernels are not kept: others can write to" in done.stdout


def test_warm_compiles_what_is_missing_and_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "kernels"))
    few = tuple(entry for entry in listed() if entry.kernel.startswith("columns."))[:2]
    monkeypatch.setattr(warm, "listed", lambda: few)
    assert [done.ready for done in warm.warm(1)] == [0, 2]
    assert warm.missing() == []
    assert [done.ready for done in warm.warm(1)] == [2]


def test_java_that_is_too_old_or_silent_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for text, found in (('version "11.0.2"', '"11.0.2" at'), ("nonsense", "does not say")):
        java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
        java.chmod(0o755)
        finding = cli_machine._java()
        assert found in finding.found
        assert finding.cure


def test_calibrate_keeps_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CEPHEID_TASK_RATES", str(tmp_path / "rates"))
    monkeypatch.setenv("CEPHEID_RATES", str(tmp_path / "store-rates.json"))
    monkeypatch.setattr(calibrate_tasks, "ROWS", 1 << 10)
    monkeypatch.setattr(calibrate, "ROWS", 1 << 14)
    cli_machine.calibrate(local=True)
    told = capsys.readouterr().out
    assert "stage         70.0 ms, not measured" in told
    assert str(tmp_path / "rates") in told
    found = read_task_rates()
    assert (found.stage_ms, found.linear_ns != TaskRates().linear_ns) == (70.0, True)
