"""The process that Spark forks its Python workers from, with all that they need loaded.

Each worker would load it for itself, from archives that it reads again and again. The package that
is installed holds the same. Modules that start threads must not be loaded before a fork; those that
are loaded here do not, or take care of their threads.
"""

from __future__ import annotations

import gc
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # It would start threads.
sys.path[:] = [path for path in sys.path if os.path.isdir(path)]  # noqa: PTH112
sys.path_importer_cache.clear()

import pandas as pd  # noqa: E402, F401 - that they are loaded is the point
from numba.core.registry import cpu_target  # noqa: E402
from pyspark import daemon, worker  # noqa: E402, F401

from cepheid.runtimes.spark import stream_tasks as spark_stream_tasks  # noqa: E402, F401
from cepheid.runtimes.spark import tasks as spark_tasks  # noqa: E402, F401

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()

if __name__ == "__main__":
    gc.freeze()  # Workers look for garbage after every task, and all of this is none.
    daemon.manager()
