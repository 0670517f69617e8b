"""Ship compiled kernels with a Spark job, so that executors need not compile them.

The driver packs its cache into one file, whose name identifies the sources, libraries and
processor. A worker looks for the file by its own identity: with another processor or version it
finds nothing, and uses its own cache. Local masters share the driver's cache already.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from cepheid.kernels import cache
from cepheid.spark.versions import is_connect
from cepheid.spark.worker_python import is_local, prepare_workers

SHIPPED_BYTES_MAX = 256 * 2**20
"""A larger cache stays where it is: it holds more than one job can need."""


class _Sent(NamedTuple):
    """The kernels shipped to an application; executors fetch the file when they start."""

    kernels: int
    folder: tempfile.TemporaryDirectory[str]


_sent: dict[str, _Sent] = {}


def _name() -> str:
    return f"cepheid-kernels-{cache.key()}.zip"


def ship_kernels(spark: SparkSession) -> int:
    """Ship the compiled kernels of this machine to the executors, and return their number."""
    prepare_workers(spark)
    if is_connect(spark):
        return 0  # The client of Spark Connect is another machine than the driver.
    context = spark.sparkContext
    if is_local(context):
        return 0
    application = str(context.applicationId)
    # Spark refuses a second file of one name, so what is compiled later stays on this machine.
    if application not in _sent:
        _sent[application] = _send(context)
    return _sent[application].kernels


def _send(context: SparkContext) -> _Sent:
    files, folder = _entries(), tempfile.TemporaryDirectory(prefix="cepheid-")
    if files:
        packed = Path(folder.name) / _name()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, file.name)
        context.addFile(str(packed))
    return _Sent(len(files), folder)


def _entries() -> list[Path]:
    """Collect the cached kernels that Python calls; they contain the kernels that they call."""
    folder = cache.folder()
    if folder is None or not folder.is_dir():
        return []
    files = sorted(folder.glob("*-entry-*"))
    return files if sum(file.stat().st_size for file in files) <= SHIPPED_BYTES_MAX else []


def use_shipped_kernels() -> None:
    """Use the driver's kernels in this task; they are read on demand."""
    cache.shipped = _find


def _find() -> Path | None:
    try:
        return Path(SparkFiles.getRootDirectory()) / _name()
    except (AssertionError, AttributeError, TypeError):
        return None  # Spark has no folder for files here.
