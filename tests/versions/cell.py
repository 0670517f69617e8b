"""One cell of the table of versions: every way to run every kind of query, in this environment.

It runs in a fresh environment that is not activated, with the session that a user would start, so
it also shows that Spark's workers find Cepheid. The exit code is 0 if all ways agree.
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
import pyspark
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


@contextmanager
def classic() -> Iterator[SparkSession]:
    """Start a session as a plain script does."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@contextmanager
def connect() -> Iterator[SparkSession]:
    """Start a Spark Connect server in a process of its own, and a session of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    settings = SETTINGS | {"spark.connect.grpc.binding.port": str(port)}
    pairs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    named = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    # The server chooses the Python of its workers; a client cannot.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with tempfile.TemporaryFile() as log:
        command = [str(submit), "--master", "local[2]", *named, *pairs]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            spark: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
            yield spark
            spark.stop()
        finally:
            server.terminate()
            server.wait(60)


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


def main(kind: str) -> int:
    """Run all ways; print those that fail, and return how many."""
    wrong = 0
    expected = plain(cepheid.query(TRENDS).run(EVENTS))
    start = connect if kind == "connect" else classic
    with tempfile.TemporaryDirectory() as name, start() as spark:
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
    if kind == "classic":
        compiled_way()
    say(f"{kind}: {wrong} of the ways failed")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
