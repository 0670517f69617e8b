"""One Spark session for all tests: starting it takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cepheid.runtime.spark_session import LOG_SETTINGS, SETTINGS

ROOT = Path(__file__).parents[2]

OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    # Small queries: compiling them takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
    **SETTINGS,
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Workers import what the tests import, wherever that is installed.
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # A task that fails is tried once more.
    builder = SparkSession.builder.master("local[2,2]")
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
