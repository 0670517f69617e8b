"""Everything in process works without PySpark and pandas, and Spark says what to install."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import threading
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.test_imports import run_fresh

import cepheid
from cepheid.errors import DataError
from cepheid.spark import worker_python
from cepheid.spark.installed import check_installed
from cepheid.spark.worker_python import NEEDED, prepare_workers

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path, target=None):
        if name in ("lark", "pandas", "py4j", "pyspark"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocked())
"""
EVENTS = """
import os, tempfile, pyarrow as pa, cepheid
from pyarrow import parquet
os.environ["CEPHEID_KERNELS"] = "interpret"
q = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B)")
t = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
folder = tempfile.mkdtemp()
parquet.write_table(t, folder + "/a.parquet")
store = cepheid.EventStore(folder + "/store", time="ts")
store.append(t)
"""
RUNS = """
clause = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS count PATTERN (A)"
clause += " DEFINE A AS type = 'B')"
found = [q.run(t), q.run(t.to_pylist()), q.run(folder + "/*.parquet"), q.run(store)]
found += [cepheid.query("SELECT COUNT(*) AS count FROM t").run(t)]
found += [cepheid.sql(clause, tables={"t": t})]
found += [cepheid.workload({"a": q.text}).run(t)]
print([int(one.to_pylist()[0]["count"]) for one in found])
"""
REFUSED = """
wide = "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS n PATTERN (A))"
wide += " UNION ALL SELECT ts FROM t"
for use in (
    lambda: cepheid.register(None),
    lambda: q.stream(t, watermark="1 second"),
    lambda: cepheid.sql(wide, tables={"t": t}),
):
    try:
        use()
    except cepheid.DataError as error:
        print(error.diagnostics[0].code, error.diagnostics[0].helps)
"""


def test_queries_in_process_need_neither_pyspark_nor_pandas() -> None:
    assert run_fresh(BLOCKED + EVENTS + RUNS) == "[3, 3, 3, 3, 3, 3, 3]"


def test_spark_without_pyspark_says_what_to_install() -> None:
    line = """E596 ("install it with Cepheid: `pip install 'cepheid[spark]'`",)"""
    assert run_fresh(BLOCKED + EVENTS + REFUSED).splitlines() == [line] * 3


def test_the_command_line_says_what_to_install(tmp_path: Path) -> None:
    words = ["stream", "q.cq", "--source", str(tmp_path), "--sink", "-"]
    words += ["--checkpoint", str(tmp_path / "c"), "--watermark", "1 second"]
    query = tmp_path / "q.cq"
    query.write_text("RETURN COUNT(*) PATTERN A+ WITHIN 1 s")
    code = f"sys.argv = {['cepheid', *words]}\nimport os\nos.chdir({str(tmp_path)!r})\n"
    code += "sys.stderr = sys.stdout\nfrom cepheid.interfaces import cli\n"
    code += "try:\n    cli.main()\nexcept SystemExit as end:\n    print(end.code)\n"
    told = run_fresh(BLOCKED + code)
    assert "error[E596]: queries on Spark need the library `pyspark`" in told
    assert told.endswith("1")


def first_session(page: str) -> tuple[str, str]:
    """Return the first Python session of a page as a script, and what it prints."""
    block = (ROOT / "docs" / page).read_text("utf-8").split("```python\n")[1].split("```")[0]
    lines = doctest.DocTestParser().get_examples(block)
    printed = "".join(line.want for line in lines).replace("<BLANKLINE>", "")
    return "".join(line.source for line in lines), printed


@pytest.mark.spark
@pytest.mark.slow
def test_a_plain_script_runs_in_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    source, printed = first_session("spark.md")
    script = tmp_path / "script.py"
    script.write_text(source)
    # The `python3` of the search path, which Spark takes for its workers, lacks all packages.
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -I "$@"\n')
    other.chmod(0o755)
    named = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME")
    variables = {name: value for name, value in os.environ.items() if name not in named}
    variables["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(script)],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == printed.split()


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.9", __spec__=""))
    with pytest.raises(DataError) as raised:
        check_installed("pyspark")
    assert raised.value.diagnostics[0].code == "E597"


@pytest.mark.spark
def test_workers_run_the_python_of_the_driver_unless_somebody_chose_another(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3-of-nobody")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    prepare_workers(spark)
    assert context.pythonExec == sys.executable


@pytest.mark.spark
def test_workers_that_cannot_run_queries_are_found_before_anything_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Another name for the same Python: it is looked at, and has another version.
    link = tmp_path / "python"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(link))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(link))
    own = cepheid.__version__
    monkeypatch.setattr(cepheid, "__version__", "9.9")
    with pytest.raises(DataError) as raised:
        prepare_workers(spark)
    (told,) = raised.value.diagnostics
    assert told.code == "E598"
    assert told.message == f"the workers of Spark have Cepheid {own}, and this is 9.9"
    assert "set PYSPARK_PYTHON, before the session starts" in told.helps[0]
    monkeypatch.setattr(cepheid, "__version__", own)
    prepare_workers(spark)


@pytest.mark.parametrize(("executors", "told"), [(["driver:1"], 1), (["driver:1", "a:2"], 0)])
def test_a_cluster_without_executors_is_told(
    executors: list[str],
    told: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = threading.Event()

    def list_executors(_: object) -> list[str]:
        asked.set()
        return executors

    monkeypatch.setattr(worker_python, "_executors", list_executors)
    monkeypatch.setattr(worker_python, "ALONE_S", 0.001)
    context: Any = SimpleNamespace(master="spark://a:7077")
    with worker_python.told_if_alone(context) as timer:
        assert asked.wait(60)
        timer.join()
    assert len(caplog.messages) == told
    assert all("`spark://a:7077` has no worker with a free core" in one for one in caplog.messages)


def test_workers_need_only_what_is_installed_with_cepheid() -> None:
    installed = [re.split(r"[^\w-]", one)[0] for one in requires("cepheid") or () if ";" not in one]
    assert {*NEEDED} - {"cepheid"} <= {*installed}
