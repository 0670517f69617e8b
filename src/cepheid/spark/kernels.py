"""Send compiled kernels with a Spark job, so that executors need not compile them.

The driver packs what its cache holds into one file, whose name says for which sources, libraries
and processor it is. A worker looks for the file by the name that fits itself: another processor or
version finds nothing, and uses its own cache. Local masters share the driver's cache already.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from cepheid.kernels import cache

SHIPPED_BYTES_MAX = 256 * 2**20
"""A larger cache stays where it is: it holds more than one job can need."""


class _Sent(NamedTuple):
    """What an application got; executors fetch the file when they start, from where it lies."""

    kernels: int
    folder: tempfile.TemporaryDirectory[str]


_sent: dict[str, _Sent] = {}


def _name() -> str:
    return f"cepheid-kernels-{cache.key()}.zip"


def ship_kernels(spark: SparkSession) -> int:
    """Send the compiled kernels of this machine to the executors; return how many there are."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return 0  # The client of Spark Connect is another machine than the driver.
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
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
    """Return the kernels of the cache that Python calls; those that they call are in them."""
    folder = cache.folder()
    if folder is None or not folder.is_dir():
        return []
    files = sorted(folder.glob("*-entry-*"))
    return files if sum(file.stat().st_size for file in files) <= SHIPPED_BYTES_MAX else []


def use_shipped_kernels() -> None:
    """Let the kernels of this task come from what the driver sent; nothing is read before."""
    cache.shipped = _find


def _find() -> Path | None:
    try:
        return Path(SparkFiles.getRootDirectory()) / _name()
    except (AssertionError, AttributeError, TypeError):
        return None  # Spark has no folder for files here.
