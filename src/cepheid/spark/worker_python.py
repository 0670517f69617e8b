"""Choose the Python of Spark's workers or, where only others can, check it before anything runs."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cepheid
from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.blobs import Batches
from cepheid.spark.failures import clear_failures
from cepheid.spark.installed import check_installed
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger("cepheid")

VARIABLE = "PYSPARK_PYTHON"

_checked: dict[str, set[str]] = {}
"""The machines whose workers can run queries, by session."""

ROUNDS = 3
"""Machines that join during a check are checked so often before a query begins."""

ALONE_S = 15.0
"""Seconds without an executor after which the driver says that it waits for one."""

NEEDED = ("cepheid", "msgspec", "numba", "numpy", "platformdirs")
"""Packages that a worker needs besides pyarrow, without which it cannot answer."""


def prepare_workers(spark: SparkSession) -> None:
    """Make sure that workers can import Cepheid.

    On this machine they run the Python of the driver, unless somebody chose another one. Otherwise
    Spark would run the ``python3`` of the search path, which in an environment that is not
    activated knows nothing of Cepheid. On a cluster and over Connect others choose the Python, so
    a small task on every executor looks what it has, once in a session, and again when executors
    run on other machines.

    Raises
    ------
    DataError
        E596 if pandas is missing here, E598 if workers cannot run queries.
    """
    check_installed("pyspark", "pandas")
    if is_connect(spark):
        remote: Any = spark  # Connect has its own class of sessions.
        if str(remote.session_id) not in _checked:
            _check(spark, 1, "for the server, before it starts")
            _checked[str(remote.session_id)] = set()
    else:
        context = spark.sparkContext
        if is_local(context):
            if VARIABLE not in os.environ:
                context.pythonExec = sys.executable
            if _is_own(context.pythonExec):
                return
        _check_machines(spark)


def is_local(context: SparkContext) -> bool:
    """Check whether workers are processes of this machine that the driver starts."""
    master = str(context.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def _is_own(program: str) -> bool:
    """Check whether a program is the Python that runs this.

    Links are not followed: the Python of an environment is a link to one that lacks its packages.
    """
    found = shutil.which(program)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)  # noqa: PTH100  # resolve() follows links


def _check_machines(spark: SparkSession) -> None:
    """Check the machines that have executors and were not checked before."""
    context = spark.sparkContext
    for _ in range(ROUNDS):
        checked = _checked.get(str(context.applicationId))
        executors = _executors(context)
        hosts = {address.rpartition(":")[0] for address in executors}
        if checked is not None and hosts <= checked:
            return
        # Spark gives idle executors one task each before it gives any a second one.
        with told_if_alone(context):
            _check(spark, len(executors), "before the session starts")
        _checked.setdefault(str(context.applicationId), set()).update(hosts)


@contextmanager
def told_if_alone(context: SparkContext) -> Iterator[threading.Timer]:
    """Say that no executor has come for a while: Spark waits for ever, and its own log is off."""

    def tell() -> None:
        if len(_executors(context)) < 2:  # The driver itself is one of them.
            message = (
                "Spark waits for executors: `%s` has no worker with a free core and the memory "
            )
            log.warning(message + "of an executor (`spark.executor.memory`)", context.master)

    timer = threading.Timer(ALONE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


def _executors(context: SparkContext) -> list[str]:
    """List the addresses of the driver and of all executors, in few calls however many they are."""
    known: Any = context._jsc.sc().getExecutorMemoryStatus()
    return str(known.keys().mkString(",")).split(",")


def _check(spark: SparkSession, count: int, where: str) -> None:
    columns = "host string, program string, missing string, version string"
    frame = spark.range(0, count, 1, count).mapInArrow(_look(), columns)
    help_ = f"set {VARIABLE}, {where}, to a Python that has Cepheid, such as {sys.executable}"
    try:
        with clear_failures():
            rows = frame.collect()
    except DataError as error:
        cause = error.diagnostics[0].message.removeprefix("Spark failed: ")
        message = f"the workers of Spark cannot run queries: {cause}"
        raise DataError([Diagnostic("E598", message, helps=(help_,))]) from error
    for row in rows:
        on = f" on `{row['host']}`" if len({row["host"] for row in rows}) > 1 else ""
        message = ""
        if row["missing"]:
            message = f"the workers of Spark{on} run `{row['program']}`, which lacks "
            message += str(row["missing"])
        elif row["version"] != cepheid.__version__:
            message = f"the workers of Spark{on} have Cepheid {row['version']}, and this is "
            message += cepheid.__version__
        if message:
            raise DataError([Diagnostic("E598", message, helps=(help_,))])


def _look(needed: tuple[str, ...] = NEEDED) -> Callable[[Batches], Batches]:
    """Build a task that tells what a worker has; it may use nothing of Cepheid outside of it."""

    def look(batches: Batches) -> Batches:
        import socket
        import sys
        from importlib.util import find_spec

        import pyarrow as pa

        for _ in batches:
            missing = [name for name in needed if find_spec(name) is None]
            version = ""
            if not missing:
                import cepheid

                version = cepheid.__version__
            row = {"host": [socket.gethostname()], "program": [sys.executable]}
            row |= {"missing": [", ".join(missing)]}
            yield pa.RecordBatch.from_pydict(row | {"version": [version]})

    return look
