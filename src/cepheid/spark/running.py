"""A live query while it runs: Spark's own planner of micro-batches, and the limit of its source.

Spark reads the limit of a source from its options when a query starts, and hands it to the source
whenever it plans a micro-batch. There is no public way to change it in between; the planner keeps
it in a map that can be replaced. Where a version of Spark, or Spark Connect, has no such map, the
limit stays as it is.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkContext

FILES, RECORDS = "files", "records"
UNITS = {"File": FILES, "Delta": FILES, "Kafka": RECORDS, "Python": RECORDS}
"""How sources count what a micro-batch takes, by a part of the name of their class.

Others ignore a limit that they did not set themselves, such as the rate source.
"""


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
            kinds = [one.getClass().getSimpleName() for one in (pair._2(), pair._1())]
        except (Py4JError, AttributeError):
            return None
        found = [unit for kind in kinds for part, unit in UNITS.items() if part in kind]
        return RunningSource(execution, found[0]) if found else None

    @property
    def limit(self) -> int | None:
        """Return the limit of the next micro-batch; None without one."""
        limit = self._execution.uniqueSources().head()._2()
        kind = limit.getClass().getSimpleName()
        if kind == "ReadMaxFiles":
            return int(limit.maxFiles())
        return int(limit.maxRows()) if kind == "ReadMaxRows" else None

    def take_at_most(self, limit: int) -> bool:
        """Let micro-batches that are planned from now on take at most so many files or records."""
        jvm: Any = SparkContext._jvm
        limits = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        made = limits.maxFiles(limit) if self.unit == FILES else limits.maxRows(limit)
        try:
            sources = self._execution.uniqueSources()
            # Scala's name of an assignment.
            replace = getattr(self._execution, "uniqueSources_$eq")
            replace(sources.updated(sources.head()._1(), made))
        except (Py4JError, AttributeError):
            return False
        return True

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
