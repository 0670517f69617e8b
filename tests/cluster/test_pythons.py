"""Cepheid comes to workers in an archive or an environment; workers without it are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.conftest import BARE, MIXED
from tests.cluster.driver import Driver
from tests.cluster.pythons import pack_environment
from tests.cluster.standalone import Cluster
from tests.unit.kernels.test_archive import pack_package

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.xdist_group("servers")]

PLAIN = {"spark.python.daemon.module": "pyspark.daemon", "spark.executorEnv.PYTHONPATH": ""}
"""Workers see nothing of the folder that the tests run in."""


def test_a_worker_without_the_package_is_named_until_it_is_sent(
    cluster: Cluster, tmp_path: Path
) -> None:
    pack_package(tmp_path / "cepheid.zip")
    chosen = {"PYSPARK_PYTHON": MIXED}
    with Driver(cluster, tmp_path, "send package", settings=PLAIN, variables=chosen) as driver:
        found = driver.found()
    assert "error[E598]: the workers of Spark run `" in found["error"], found
    assert "which lacks cepheid\n" in found["error"]
    assert "= help: set PYSPARK_PYTHON" in found["error"]
    assert found["right"]


@pytest.mark.slow
def test_the_package_comes_with_the_job(cluster: Cluster, tmp_path: Path) -> None:
    pack_package(tmp_path / "cepheid.zip")
    chosen = {
        "PYSPARK_PYTHON": BARE,
        "PYSPARK_SUBMIT_ARGS": f"--py-files {tmp_path / 'cepheid.zip'} pyspark-shell",
    }
    place = tmp_path / "job"
    with Driver(cluster, place, "one question", settings=PLAIN, variables=chosen) as driver:
        found = driver.found()
    assert found.get("right"), found


@pytest.mark.slow
def test_the_package_comes_in_an_environment(cluster: Cluster, tmp_path: Path) -> None:
    pack_environment(tmp_path / "env.tar.gz", tmp_path / "env")
    settings = PLAIN | {"spark.archives": f"{tmp_path / 'env.tar.gz'}#env"}
    chosen = {"PYSPARK_PYTHON": "./env/bin/python"}
    place = tmp_path / "job"
    with Driver(cluster, place, "one question", settings=settings, variables=chosen) as driver:
        found = driver.found()
    assert found.get("right"), found
