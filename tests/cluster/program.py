"""A driver of a cluster: ``python -m tests.cluster.program JOB FOLDER``.

The folder holds the events and ``settings.json``, the settings of the session with its master. What
is found goes to ``found.json``.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession
from tests.cluster.parts import BUCKET
from tests.cluster.questions import (
    LIVE,
    QUESTIONS,
    ask,
    is_right,
    is_right_live,
    live_rows,
    start_live,
)
from tests.spark_options import options

from cepheid.errors import CepheidError
from cepheid.jobs.hot_keys import HotKey, Split, noted_keys
from cepheid.jobs.shedding import Level, Shed
from cepheid.jobs.tables import table_to_bytes
from cepheid.spark.failures import FAILURES, clear_error

Found = dict[str, Any]
IDLE_S = 60


@contextlib.contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """Start a session with the settings of a folder."""
    settings = msgspec.json.decode((folder / "settings.json").read_bytes(), type=dict[str, str])
    builder = SparkSession.builder.appName("cepheid-cluster")
    if "spark.remote" not in settings:
        settings = options() | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


def lost(spark: SparkSession) -> int:
    """Count the executors that are gone."""
    context: Any = spark.sparkContext._jsc.sc()
    store = context.statusStore()
    return int(store.executorList(False).size() - store.executorList(True).size())


def failed_tasks(spark: SparkSession) -> int:
    """Count the tasks that failed, and were tried again."""
    context: Any = spark.sparkContext._jsc.sc()
    executors = context.statusStore().executorList(False)
    return sum(int(executors.apply(n).failedTasks()) for n in range(executors.size()))


def speculated(spark: SparkSession) -> int:
    """Count the stages in which Spark ran a second copy of a slow task."""
    context: Any = spark.sparkContext._jsc.sc()
    store, stages = context.statusStore(), int(context.newRddId())
    return sum(bool(store.speculationSummary(n, 0).isDefined()) for n in range(stages))


def ask_all(spark: SparkSession, folder: Path) -> list[str]:
    """Ask every question; return those with a wrong answer."""
    return [
        name
        for name, question in QUESTIONS.items()
        if not is_right(ask(spark, question, folder), question.text)
    ]


def wrong_live(spark: SparkSession, folder: Path, names: list[str]) -> list[str]:
    """Return the live queries that have not written the rows of the oracle, each once."""
    return [name for name in names if not is_right_live(live_rows(spark, name, folder), name)]


def once(spark: SparkSession, folder: Path) -> Found:
    """Ask everything once, then run the live queries to the end of their stream."""
    wrong = ask_all(spark, folder)
    live = [start_live(spark, name, folder, {"availableNow": True}) for name in LIVE]
    for one in live:
        one.awaitTermination()
    return {"wrong": wrong, "wrong live": wrong_live(spark, folder, list(LIVE))}


def until_told(spark: SparkSession, folder: Path) -> Found:
    """Ask everything again and again while live queries run, until the file ``enough`` is there."""
    wrong: list[str] = []
    asked = 0
    live = [start_live(spark, name, folder, {"processingTime": "0 seconds"}) for name in LIVE]
    for name, question in itertools.cycle(QUESTIONS.items()):
        if asked >= len(QUESTIONS) and (folder / "enough").exists():
            break
        wrong += [] if is_right(ask(spark, question, folder), question.text) else [name]
        asked += 1
        (folder / "asked").write_text(str(asked))
    for one in live:
        one.processAllAvailable()
        one.stop()
    killed, begun = int((folder / "enough").read_text()), time.monotonic()
    while lost(spark) < killed and time.monotonic() - begun < IDLE_S:
        time.sleep(0.1)  # The driver hears of the last one after a moment.
    facts = {"asked": asked, "lost": lost(spark), "failed tasks": failed_tasks(spark)}
    facts["speculated"] = speculated(spark)
    return {"wrong": wrong, "wrong live": wrong_live(spark, folder, list(LIVE)), **facts}


def with_pauses(spark: SparkSession, folder: Path) -> Found:
    """Ask everything, wait until all executors are given back, and ask everything again."""
    context: Any = spark.sparkContext._jsc.sc()
    wrong = ask_all(spark, folder)
    begun = time.monotonic()
    while context.getExecutorMemoryStatus().size() > 1 and time.monotonic() - begun < IDLE_S:
        time.sleep(0.1)
    left = context.getExecutorMemoryStatus().size() - 1
    wrong += once(spark, folder)["wrong live"] + ask_all(spark, folder)
    return {"wrong": wrong, "left": left, "lost": lost(spark)}


def one_question(spark: SparkSession, folder: Path) -> Found:
    """Ask one question."""
    question = QUESTIONS["keys"]
    return {"right": is_right(ask(spark, question, folder), question.text)}


def send_package(spark: SparkSession, folder: Path) -> Found:
    """Ask while a worker lacks the package, and again after it was sent."""
    found: Found = {}
    try:
        found = one_question(spark, folder)
    except CepheidError as error:
        found["error"] = str(error)
    spark.sparkContext.addPyFile(str(folder / "cepheid.zip"))
    return found | one_question(spark, folder)


def serve(spark: SparkSession, folder: Path) -> Found:
    """Let clients of Spark Connect ask until the file ``enough`` is there."""
    (folder / "asked").write_text("1")
    while not (folder / "enough").exists():
        time.sleep(0.1)
    context: Any = spark.sparkContext._jsc.sc()
    executors = context.statusStore().executorList(False)
    everything = [executors.apply(n) for n in range(executors.size())]
    tasks = sum(int(one.totalTasks()) for one in everything if one.id() != "driver")
    return {"tasks": tasks}


def from_object_store(spark: SparkSession, folder: Path) -> Found:
    """Ask what tasks read from files, over copies in a bucket; keep notes of live queries there."""
    place = f"s3://{BUCKET}/files"
    fs.copy_files(str(folder / "files"), place)
    wrong = []
    asked = {name: one for name, one in QUESTIONS.items() if one.place == "files"}
    for name, question in asked.items():
        if not is_right(ask(spark, question, folder, place), question.text):
            wrong.append(name)
    shed = Shed(f"s3://{BUCKET}/shed", 1000, (), (), 10, 10, 10)
    for since, keep in ((90, 4), (5, 2)):
        shed.note_level(Level(since, keep))
    shed.note_pace(1, 10, 9_000)
    pace = [shed.pace(10), shed.pace(11)]
    hot = f"s3://{BUCKET}/hot"
    key = HotKey(3, 50, table_to_bytes(pa.table({"key": [7]})))
    Split(hot, ("key",), 10, 100, 4).note([key])
    levels = [[level.since, level.keep] for level in shed.levels()]
    return {
        "asked": len(asked), "wrong": wrong, "levels": levels, "pace": pace,
        "hot": noted_keys(hot),
    }  # fmt: skip


JOBS: dict[str, Callable[[SparkSession, Path], Found]] = {
    "once": once,
    "until told": until_told,
    "with pauses": with_pauses,
    "one question": one_question,
    "send package": send_package,
    "serve": serve,
    "object store": from_object_store,
}


def main(job: str, place: str) -> None:
    """Run a job; an error of Cepheid is what was found."""
    folder = Path(place)
    with session(folder) as spark:
        begun = time.perf_counter()
        try:
            found = JOBS[job](spark, folder)
        except CepheidError as error:
            found = {"error": str(error)}
        except FAILURES as error:
            found = {"error": str(clear_error(error)), "raised": str(error)}
        found["seconds"] = time.perf_counter() - begun
        (folder / "found.json").write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
