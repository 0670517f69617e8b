"""One cell of the table of versions: every way to run every kind of query, in this environment.

It runs in a fresh environment that is not activated, with the session that a user would start, so
it also shows that Spark's workers find Cepheid. One JVM serves a client of Spark Connect, in a
process of its own, and then the session: most of the time goes into warming it up. The exit code
tells which of them failed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from tests.architecture.test_matrix import EVENTS, QUERIES, hold, plain, table_of, written_table
from tests.jvm import FLAGS

import cepheid
from cepheid.spark.versions import LOCAL_CHECKPOINTS

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Small queries: compiling them takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": FLAGS,
    # Workers would each load what they need; most of the time would go there.
    "spark.python.daemon.module": "tests.spark_daemon",
    # Otherwise Spark starts 200 processes for a live query of three micro-batches.
    LOCAL_CHECKPOINTS[0]: LOCAL_CHECKPOINTS[1],
}
TRENDS = QUERIES["aggregates of trends"]
FAILED = {"classic": 2, "connect": 4}
"""The parts of the exit code; 1 is an error of this program."""


@contextmanager
def classic(port: int) -> Iterator[SparkSession]:
    """Start a session as a plain script does, with a Spark Connect server in its JVM."""
    settings = SETTINGS | {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
    }
    # A server chooses the Python of its workers; a client cannot. The session's own workers get
    # theirs from this process, where the variable is not set, as for a user.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    del os.environ["PYSPARK_PYTHON"]
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@contextmanager
def connect(port: int) -> Iterator[SparkSession]:
    """Start a session of the Spark Connect server at a port."""
    spark: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    yield spark
    spark.stop()


def free_port() -> int:
    """Find a port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def other_ways(spark: SparkSession, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the ways to run one query that the table of kinds and places lacks."""
    query = cepheid.query(TRENDS)
    frame = spark.createDataFrame(EVENTS)
    files = str(folder / "files")
    ways: dict[str, Callable[[], Any]] = {
        "combine": lambda: query.run(frame, strategy="combine"),
        "key shuffle": lambda: query.run(frame, strategy="key shuffle"),
        "time shuffle": lambda: query.run(frame, strategy="time shuffle"),
    }
    ways["scan slices"] = lambda: query.run(files, spark=spark, strategy="scan slices")
    ways["from pandas"] = lambda: query.run(spark.createDataFrame(EVENTS.to_pandas()))

    def in_sql() -> Any:
        cepheid.register(spark)
        frame.createOrReplaceTempView("events")
        text = TRENDS.replace("'", "''")
        return spark.sql(f"SELECT * FROM cepheid(TABLE(events), '{text}')")

    def as_source() -> Any:
        cepheid.register(spark)
        return spark.read.format("cepheid").option("query", TRENDS).load(f"{files}/*.parquet")

    return ways | {"SQL function": in_sql, "data source": as_source}


def compiled_way() -> None:
    """Run a query with kernels that numba compiles for this Python, in a process of its own.

    They are compiled once for a Python: no version of Spark changes them.
    """
    code = (
        "from tests.architecture.test_matrix import *\n"
        "assert plain(cepheid.query(QUERIES['aggregates of trends']).run(EVENTS))"
    )
    environment = os.environ | {"CEPHEID_KERNELS": "compile"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def say(text: str) -> None:
    """Write a line to the log of the cell."""
    sys.stdout.write(f"{text}\n")


def run_ways(kind: str, spark: SparkSession) -> int:
    """Run all ways; print those that fail, and return how many."""
    wrong = 0
    expected = plain(cepheid.query(TRENDS).run(EVENTS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = table_of(hold(spark, folder))
        if found != written_table()[1]:
            wrong += 1
            say(found)
        for way, run in other_ways(spark, folder).items():
            try:
                rows = run().toArrow()
                assert isinstance(rows, pa.Table)
                assert plain(rows) == expected
            except Exception as error:
                wrong += 1
                say(f"{way}: {type(error).__name__}: {str(error)[:2000]}")
    say(f"{kind}: {wrong} of the ways failed")
    return wrong


def main(port: int) -> int:
    """Run all ways with a client of Spark Connect, then with a session of this process."""
    code = 0
    with classic(port) as spark:
        client = [sys.executable, "-m", "tests.versions.cell", "connect", str(port)]
        if subprocess.run(client, check=False).returncode:
            code |= FAILED["connect"]
        if run_ways("classic", spark):
            code |= FAILED["classic"]
    compiled_way()
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["connect"]:
        with connect(int(sys.argv[2])) as session:
            sys.exit(run_ways("connect", session))
    sys.exit(main(free_port()))
