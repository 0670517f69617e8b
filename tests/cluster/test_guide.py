"""The commands of the guide to clusters, typed one after the other as a new user does."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.cluster.pythons import base_python, link_libraries, write_python
from tests.jvm import FLAGS
from tests.runtime.cluster import ROOT
from tests.servers import free_port
from tests.unit.kernels.test_archive import pack_package

import cepheid

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("servers"),
]

LEFT_OUT = ("pip install ", "pip wheel ")
"""What asks a registry, or builds the wheel that the test has made."""
PORT = "7077"
END_S = 400
DELAY = dt.timedelta(seconds=10)
"""The watermark of `cepheid stream`, if none is given."""
QUERY = "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 10 s SLIDE 10 s"
EVENTS = pa.table(
    {
        "ts": pa.array(range(0, 400, 2), pa.timestamp("s")).cast(pa.timestamp("us")),
        "type": ["A", "B", "A", "C"] * 50,
        "key": [n % 3 for n in range(200)],
    }
)


def commands() -> list[str]:
    """Read the commands of the guide, a list of lines for each block."""
    text = (ROOT / "docs" / "cluster.md").read_text("utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if not block.startswith("error")]


def script(block: str, port: int) -> str:
    """Write what bash runs: the lines as they stand, but for the port of the master."""
    lines = [line for line in block.splitlines() if not line.startswith(LEFT_OUT)]
    return "\n".join(["set -e", *lines]).replace(PORT, str(port))


def prepare(folder: Path) -> None:
    """Write what a user has: a query, files of events, a wheel, and Cepheid on the search path."""
    (folder / "query.cq").write_text(QUERY)
    for name, content in (("events", "files"), ("dist", ""), ("bin", "")):
        (folder / name).mkdir()
        for number in range(2 if content else 0):
            rows = EVENTS.slice(number * 100, 100)
            parquet.write_table(rows, folder / name / f"{number}.parquet")
    pack_package(folder / "dist" / "cepheid-0-py3-none-any.whl")
    program = Path(sys.executable).parent / "cepheid"
    write_python(folder / "bin" / "cepheid", str(program), ROOT / "src")
    write_python(folder / "bin" / "python", sys.executable)
    write_python(folder / "bin" / "python-with-cepheid", sys.executable, ROOT / "src")
    link_libraries(folder / "libraries")
    write_python(folder / "bin" / "python-without", base_python(), folder / "libraries")


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_the_guide_as_it_is_typed(tmp_path: Path) -> None:
    start, send = commands()
    prepare(tmp_path)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    port = free_port()
    whole = [
        "export PYSPARK_PYTHON=python-with-cepheid",
        script(start, port),
        "export PYSPARK_PYTHON=python-without",
        script(send, port),
        "echo done",
    ]
    (tmp_path / "typed").write_text("\n".join(whole))
    variables = own | {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CEPHEID_KERNELS": "interpret",
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": FLAGS,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    with (tmp_path / "told").open("wb") as output:
        shell = subprocess.Popen(
            ["bash", "typed"],
            env=variables,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        shell.wait(END_S)
    finally:
        # The daemons of Spark go on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    told = (tmp_path / "told").read_text("utf-8", "replace")
    assert "\ndone\n" in told, told[-4000:]
    wanted = rows_of(cepheid.query(QUERY).run(EVENTS))
    assert wanted
    assert all(f"{row[1]:%H:%M:%S}" in told for row in wanted), told
    found = parquet.read_table(tmp_path / "rows").select(["key", "window_start", "count"])
    # The last windows of a stream are still open.
    until = EVENTS["ts"][-1].as_py() - DELAY
    closed = {(row[0], row[1], row[-1]) for row in wanted if row[2] <= until}
    streamed = {tuple(row.values()) for row in found.to_pylist()}
    assert closed
    assert closed <= streamed <= {(row[0], row[1], row[-1]) for row in wanted}
