"""Executors run the kernels that the driver compiled, where they fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.cluster import environment

from cepheid.kernels import cache
from cepheid.spark import kernels as spark_kernels

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_executors_with_an_empty_cache_compile_nothing_that_was_sent(tmp_path: Path) -> None:
    # The driver's cache is the one that tests share, so nothing is compiled here either.
    variables = environment(tmp_path)
    (tmp_path / "executor").mkdir()
    command = [sys.executable, "-m", "tests.runtime.kernel_tasks", str(tmp_path / "executor")]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Any = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert found["shipped"] == len(found["driver"]) > 0
    # Both run the same kernels over the same types; without what was sent, both would have them.
    assert not set(found["driver"]) & set(found["executor"])


def test_a_cache_that_is_too_large_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    cache.save("a.b-entry-0", cache.Entry("a.b", "int64", 1.0, b"", b"x" * 100))
    assert len(spark_kernels._entries()) == 1
    monkeypatch.setattr(spark_kernels, "SHIPPED_BYTES_MAX", 10)
    assert spark_kernels._entries() == []


def test_an_archive_that_others_can_write_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "shipped", lambda: tmp_path / "sent.zip")
    assert cache.load("name") is None
    (tmp_path / "sent.zip").write_bytes(b"no archive")
    cache._open_archive.cache_clear()
    assert cache.load("name") is None
    (tmp_path / "sent.zip").chmod(0o666)
    cache._open_archive.cache_clear()
    assert cache.load("name") is None
    cache._open_archive.cache_clear()
