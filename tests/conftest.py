"""Options and settings that every test shares."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.nodeid import NodeId
from hypothesis import HealthCheck, settings
from tests.amount import left_out
from tests.jvm import FLAGS
from tests.servers import Broker, Postgres, start_broker, start_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
TABLE_S = 60.0
"""Shorter runs need no table of their parts."""

# Kernels for a GPU run in numba's simulator, unless tests run on a machine with a GPU.
os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

# Figures of this machine would choose other plans than those of other machines.
os.environ["CEPHEID_RATES"] = os.devnull
# Tests have few events and cut them as if they were many: starting a task costs nothing here.
os.environ["CEPHEID_TASK_RATES"] = str(ROOT / "tests" / "task-rates")
# What one test took must not change what another one chooses.
os.environ["CEPHEID_TASK_RUNS"] = os.devnull

# Spark starts its workers with the `python3` of the search path, which may know nothing of the
# environment that runs the tests.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# The drivers that commands start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", FLAGS)

# Files of tests live for seconds, and most are written through to the disk. Memory will do.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
):
    _folder = tempfile.mkdtemp(prefix="cepheid-tests-", dir=MEMORY)
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = tempfile.tempdir = _folder

# A deadline per example would fail on a busy machine; pytest-timeout bounds the whole test instead.
settings.register_profile("dev", max_examples=30, deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    max_examples=12,
    deadline=None,
    print_blob=True,
    derandomize=True,  # The same commit gives the same verdict.
    suppress_health_check=[HealthCheck.too_slow],  # A busy machine is not a failure.
)
# `make long` says how many.
_many = int(os.environ.get("CEPHEID_EXAMPLES") or 2_000)
settings.register_profile("long", max_examples=_many, deadline=None, print_blob=True)

_on_ci = os.environ.get("CI", "").lower() in {"1", "true"}
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if _on_ci else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expectations of the golden files; review the diff",
    )
    parser.addoption(
        "--kills",
        default=3,
        type=int,
        help="how often the crash test kills the driver of a live query",
    )
    parser.addoption(
        "--cuts",
        default=40,
        type=int,
        help="how often the power is cut while a store is written",
    )
    parser.addoption(
        "--flips",
        default=80,
        type=int,
        help="how many bits of every kind of file and state are changed, one at a time",
    )
    parser.addoption(
        "--killed",
        default="",
        choices=["", "keys", "edges", "panes"],
        help="which query it is: by key, with an edge predicate, or of the whole stream",
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process: starting it takes longer than most of them."""
    # Most tests need no Spark, and it takes a second to load.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from tests.spark_options import options

    # Workers import what the tests import, wherever that is installed.
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    remember_classes()
    if SparkContext._active_spark_context is not None:
        # Somebody's session with other settings, such as one that `cepheid.sql` made for itself.
        SparkContext._active_spark_context.stop()
    # A task that fails is tried once more.
    builder = SparkSession.builder.master("local[2,2]")
    for name, value in options().items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker of Kafka for all tests of a process."""
    started = start_broker(tmp_path_factory.mktemp("kafka"))
    yield started
    started.stop(kill=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server of PostgreSQL for all tests of a process."""
    # Another user has to reach the folder, which pytest's own folders do not let.
    folder = Path(tempfile.mkdtemp(prefix="cepheid-postgres-", dir="/tmp"))
    started = start_postgres(folder)
    yield started
    started.stop()
    shutil.rmtree(folder, ignore_errors=True)


def remember_classes() -> None:
    """Let Py4J look up a class of the JVM once.

    It asks for it again wherever PySpark names it, seventy times for a small query, and the JVM
    looks into all of its archives under eight names each time.
    """
    from py4j.java_gateway import JavaClass, JVMView  # type: ignore[import-untyped]  # as it is

    look_up = JVMView.__getattr__

    def find(view: Any, name: str) -> Any:
        found = look_up(view, name)
        if isinstance(found, JavaClass):
            view.__dict__[name] = found
        return found

    JVMView.__getattr__ = find


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Put tests into the groups of workers, and take a share of long lists of cases."""
    group(config, items)
    yield  # Marks choose tests here.
    if without := left_out(config, items):
        config.hook.pytest_deselected(items=without)
        gone = {*map(id, without)}
        items[:] = [item for item in items if id(item) not in gone]


def group(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of Spark to two workers, so that two sessions start and get warm.

    Each keeps a part of a core busy. Workers take groups in the order of their sizes: these come
    first, and all other tests fill the time that is left.
    """
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}
        if "spark" in fixtures:
            own = "runtime" in item.path.parts
            item.add_marker(pytest.mark.xdist_group("spark-runtime" if own else "spark"))
        elif {"broker", "postgres"} & fixtures:
            # Their drivers have Java machines of their own, and would keep the warm one waiting.
            item.add_marker(pytest.mark.xdist_group("servers"))
        if marker := item.get_closest_marker("xdist_group"):
            # The plugin writes the group into `_nodeid`, which pytest 9.2 no longer reads.
            item._id = NodeId.parse(f"{item.nodeid}@{marker.args[0]}")
            assert "@" in item.nodeid, "this pytest keeps its ids elsewhere"


_seconds: dict[str, float] = defaultdict(float)
_workers: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.split("/")[1].partition("::")[0]] += report.duration
    if (node := getattr(report, "node", None)) is not None:
        _workers[node.gateway.id] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print where the time went, by folder; several workers spend it side by side."""
    if sum(_seconds.values()) < TABLE_S:
        return
    terminalreporter.section("minutes by folder")
    for folder, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{folder:<14} {seconds / 60:6.1f}")
    for worker, seconds in sorted(_workers.items()):
        terminalreporter.write_line(f"worker {worker:<7} {seconds / 60:6.1f}")
