"""A live query while it runs: Spark's own planner of micro-batches, and the limit of its source.

Spark reads the limit of a source from its options when a query starts, and hands it to the source
whenever it plans a micro-batch. There is no public way to change it in between; the planner keeps
it in a map that can be replaced. Where a version of Spark, or Spark Connect, has no such map, the
limit stays as it is.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkContext

FILES, RECORDS = "files", "records"
UNITS = {
    "FileStreamSource": FILES,
    "DeltaSource": FILES,
    "KafkaMicroBatchStream": RECORDS,
    "PythonMicroBatchStreamWithAdmissionControl": RECORDS,
    "PythonMicroBatchStreamWithTriggerAvailableNow": RECORDS,
}
"""How sources count what a micro-batch takes. Others ignore limits, such as the rate source, or do
not know ours, and would end the query."""
IN_PYTHON = "PythonStreamingSourceReadLimit"
"""The limit of a source that is written in Python, as JSON: ours for Kafka is one."""


class RunningSource:
    """The only source of a live query that runs, and its limit."""

    def __init__(self, execution: Any, unit: str) -> None:
        self._execution, self.unit = execution, unit

    @staticmethod
    def of(live: Any) -> RunningSource | None:
        """Find the source of a running query; None if its limit cannot be changed."""
        try:
            execution = live._jsq.streamingQuery()
            pairs = execution.uniqueSources()
            if pairs.size() != 1:
                return None
            pair = pairs.head()
            unit = UNITS.get(pair._1().getClass().getSimpleName())
        except (Py4JError, AttributeError):
            return None
        return None if unit is None else RunningSource(execution, unit)

    @property
    def limit(self) -> int | None:
        """Return the limit of the next micro-batch; None without one."""
        limit = self._execution.uniqueSources().head()._2()
        kind = limit.getClass().getSimpleName()
        if kind == "ReadMaxFiles":
            return int(limit.maxFiles())
        if kind == IN_PYTHON:
            found = json.loads(limit.json()).get("max_rows")
            return None if found is None else int(found)
        return int(limit.maxRows()) if kind == "ReadMaxRows" else None

    def take_at_most(self, limit: int) -> bool:
        """Let micro-batches that are planned from now on take at most so many files or records."""
        try:
            sources = self._execution.uniqueSources()
            made = self._made(sources.head()._2(), limit)
            # Scala's name of an assignment.
            replace = getattr(self._execution, "uniqueSources_$eq")
            replace(sources.updated(sources.head()._1(), made))
        except (Py4JError, AttributeError):
            return False
        return True

    def _made(self, before: Any, limit: int) -> Any:
        """Make a limit of the kind that the source knows."""
        spark: Any = SparkContext._jvm.org.apache.spark.sql  # type: ignore[union-attr]  # it runs
        if before.getClass().getSimpleName() == IN_PYTHON:
            text = json.dumps({"max_rows": limit, "_type": "ReadMaxRows"})
            return spark.execution.datasources.v2.python.PythonStreamingSourceReadLimit(text)
        limits = spark.connector.read.streaming.ReadLimit
        return limits.maxFiles(limit) if self.unit == FILES else limits.maxRows(limit)

    def log_of_files(self, number: int) -> str:
        """Read the files of a micro-batch from the log of a folder, on any file system."""
        root = self._execution.resolvedCheckpointRoot()
        jvm: Any = SparkContext._jvm
        settings = self._execution.sparkSession().sessionState().newHadoopConf()
        for name in (str(number), f"{number}.compact"):
            path = jvm.org.apache.hadoop.fs.Path(f"{root}/sources/0/{name}")
            system = path.getFileSystem(settings)
            if system.exists(path):
                opened = system.open(path)
                try:
                    return bytes(opened.readAllBytes()).decode()
                finally:
                    opened.close()
        return ""
