"""The process that Spark forks its Python workers from, with all that they need loaded.

Each worker would load it for itself, from an archive that is neither compiled nor in the way of
the package that is installed. Only the tests use this: modules that start threads must not be
loaded before a fork, and none of these does.
"""

from __future__ import annotations

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # It would start threads.
sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]
sys.path_importer_cache.clear()

import pandas as pd  # noqa: E402, F401 - that they are loaded is the point
from pyspark import daemon, worker  # noqa: E402, F401

from cepheid.runtime import spark_stream_tasks, spark_tasks  # noqa: E402, F401

if __name__ == "__main__":
    daemon.manager()
