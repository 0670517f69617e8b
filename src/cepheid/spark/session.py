"""Start a Spark session with suitable settings, collect results in order, and shorten failures."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import SparkSession

from cepheid.errors import DataError, Diagnostic
from cepheid.spark.failures import clear_failures
from cepheid.spark.versions import LOCAL_CHECKPOINTS, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.plans.plan import Plan

JAVA_MIN = 17

SETTINGS = {
    # The default measures every row on its way to Python, which makes it 2.5 times slower.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Columns are handed over by position; this checks their names.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
}
"""Settings of a running session that make Cepheid faster and safer."""

START_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.memory": "4g",
    # Nobody sees the web page, for which Spark keeps the plans and numbers of the last thousand
    # executions: the heap of a live query would grow for half an hour.
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.ui.dagGraph.retainedRootRDDs": "100",
}
"""Settings of sessions that Cepheid starts itself."""

BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BRIEF_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of sessions that live for seconds: compiling well takes longer than what it saves."""

LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For sessions in which tasks of Python read the events: the JVM only passes blobs on, and its
second compiler costs as much as all else in the first minutes without making that faster. The room
for code is what Java has with both compilers: with one it takes 48 MB by itself, which a live query
fills within 70 seconds, and runs new code uncompiled after that."""
LIVE_SETTINGS = {
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    "spark.sql.streaming.fileSink.log.compactInterval": "100",
}
"""For live sessions: Spark's logs of files that were read and written name all of them for ever,
and would be read and written as a whole in every tenth micro-batch."""
BLOBS_SETTINGS = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""For live queries of a light session that send few rows: Spark would write code in every task, and
compile some anew in every micro-batch, whose time stands in it, to pass on a few blobs."""

BATCH_JAVA = "-XX:+UseParallelGC"
"""For queries over bounded input, whose blobs of megabytes keep Java's usual collector busy; this
one stops all threads instead, which only a live query would notice."""


_PROVIDER = "org.apache.spark.sql.execution.streaming.state"
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_PROVIDER}.HDFSBackedStateStoreProvider",
        f"{_PROVIDER}.RocksDBStateStoreProvider",
    ),
    f"{_ROCKSDB}.changelogCheckpointing.enabled": ("false", "true"),
    # A put would read the old value, megabytes, to know whether it is the first.
    f"{_ROCKSDB}.trackTotalNumberOfRows": ("true", "false"),
}
"""Settings of the state store of live queries: Spark's default, and a better value."""

LOG_SETTINGS = Path(__file__).parents[1] / "data" / "log4j2.properties"


_JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_CHOICES = (re.compile(r"-XX:\+Use\w+GC\b"), re.compile(r"-XX:ReservedCodeCacheSize=\w+"))
"""A collector, with two of which Java does not start, and the room for compiled code."""


def _without_chosen(options: str) -> str:
    """Leave our choices out where the user made one."""
    chosen = " ".join(os.environ.get(name, "") for name in _JAVA_VARIABLES)
    for choice in _CHOICES:
        if choice.search(chosen):
            options = choice.sub("", options)
    return " ".join(options.split())


def check_java() -> None:
    """Report a missing or outdated Java in one line, where Spark prints a page.

    Raises
    ------
    DataError
        E522.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = ""
    if java is not None and Path(java).exists():
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        version = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', version)
    if found is not None and int(found[1]) >= JAVA_MIN:
        return
    what = f"Java {found[1]} is too old" if found else "there is no Java"
    message = f"Spark needs Java {JAVA_MIN} or newer, and {what}"
    helps = (f"install openjdk-{JAVA_MIN}-jre-headless, or set JAVA_HOME",)
    raise DataError([Diagnostic("E522", message, helps=helps)])


@contextlib.contextmanager
def session(
    master: str | None = None,
    *,
    packages: str | None = None,
    brief: bool = False,
    live: bool = False,
    light: bool = False,
    blobs: bool = False,
) -> Iterator[SparkSession]:
    """Start a Spark session, with packages for its sources, and stop it at the end.

    A brief one compiles little, for a few small queries; in a live one nothing stops for long, and
    in a light one no event goes through the JVM as a row. In one for blobs, few results do.

    Raises
    ------
    DataError
        E522 if Java is missing or Spark does not start.
    """
    if os.environ.get("SPARK_REMOTE") is None:
        check_java()
    # Workers must be the Python that runs this, not whichever comes first on the search path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("cepheid")
    if master is not None or "MASTER" not in os.environ:
        builder = builder.master(master or "local[*]")
    if packages is not None:
        builder = builder.config("spark.jars.packages", packages)
    silent = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    java = [BRIEF_JAVA] if brief else [LIGHT_JAVA] * light + [BATCH_JAVA] * (not live)
    options = _without_chosen(" ".join([*java, silent]))
    builder = builder.config("spark.driver.extraJavaOptions", options)
    of_kind = (BRIEF_SETTINGS, brief), (LIVE_SETTINGS, live), (BLOBS_SETTINGS, blobs)
    more = [settings for settings, wanted in of_kind if wanted]
    for name, value in ChainMap(*more, SETTINGS, START_SETTINGS).items():
        builder = builder.config(name, value)
    try:
        with _silence():
            spark = builder.getOrCreate()
        if not is_connect(spark):
            spark.sparkContext.setLogLevel("OFF")
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError([Diagnostic("E522", f"Spark does not start: {reason[0]}")]) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the output of processes started here; errors arrive as exceptions."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def collect(frame: DataFrame, plan: Plan) -> pa.Table:
    """Collect a result as a table, sorted by window and group as in local runs.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    with clear_failures():
        table = frame.toArrow()
    groups = [name for name in plan.partition.group_by if name in table.column_names]
    times = [name for name in ("window_start",) if name in table.column_names]
    order: list[tuple[str, Literal["ascending", "descending"]]]
    order = [(name, "ascending") for name in [*times, *groups]]
    return table.sort_by(order) if order and len(table) else table


def keep_checkpoints_local(spark: SparkSession, checkpoint: str) -> None:
    """Write checkpoints on a local disk with few processes: Hadoop starts some for every file.

    By default, Spark renames files through a class that runs ``readlink`` for each. The other class
    renames without it; on HDFS it would keep an existing file, so it is for local disks only. Every
    new file costs a ``chmod``, so no checksums are written to a second file beside it: states have
    one inside, and a file alone is renamed at once, where a crash could leave the checksum of
    another one behind.
    """
    name, better = LOCAL_CHECKPOINTS
    if spark.conf.get(name, None) is None and not is_connect(spark):
        jvm: Any = spark.sparkContext._jvm
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        place = jvm.org.apache.hadoop.fs.Path(checkpoint).getFileSystem(configuration)
        if place.getScheme() != "file":
            return
        # All that this JVM writes to local files has none from now on.
        place.setWriteChecksum(False)
        try:
            jvm.java.lang.Class.forName(better)
        except Py4JError:  # Another version of Spark has it elsewhere.
            return
        spark.conf.set(name, better)


@contextlib.contextmanager
def watch(spark: SparkSession, tell: Callable[[str], object]) -> Iterator[None]:
    """Report the number of finished tasks repeatedly while the body runs."""
    if is_connect(spark):
        yield
        return
    done = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not done.wait(0.5):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    tell(f"{info.numCompletedTasks} of {info.numTasks} tasks")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
