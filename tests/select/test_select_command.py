"""``cepheid run`` and ``cepheid store query`` with SELECT."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet
from tests.select.test_local import FEW
from typer.testing import CliRunner

import cepheid
from cepheid.interfaces.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet.write_table(FEW, tmp_path / "s.parquet")
    (tmp_path / "filter.cq").write_text("SELECT ts, x FROM s WHERE x > 2")
    (tmp_path / "sums.cq").write_text("SELECT SUM(x) FROM s WINDOW 4 us")
    (tmp_path / "join.cq").write_text("SELECT l.x, r.x AS y FROM l JOIN r ON l.x < r.x WINDOW 3 us")
    return tmp_path


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app.typer(), [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_run(folder: Path) -> None:
    files = folder / "s.parquet"
    assert run("run", folder / "filter.cq", "--input", files, "--format", "csv") == (
        '"ts","x"\n0,4\n4,8\n'
    )
    found = run("run", folder / "sums.cq", "--input", files, "--format", "json")
    assert found.splitlines()[0] == '{"window_start":-4,"window_end":0,"sum_x":3}'


def test_a_join_names_its_inputs(folder: Path) -> None:
    files = folder / "s.parquet"
    inputs = ("--input", f"l={files}", "--input", f"r={files}")
    found = run("run", folder / "join.cq", *inputs, "--format", "csv")
    assert found == '"x","y"\n1,2\n2,4\n'
    done = CliRunner().invoke(app.typer(), ["run", str(folder / "join.cq"), "--input", str(files)])
    assert done.exit_code == 1
    assert "E561" in str(done.exception)


def test_other_queries_have_one_input(folder: Path) -> None:
    inputs = ["--input", "a.parquet", "--input", "b.parquet"]
    done = CliRunner().invoke(app.typer(), ["run", str(folder / "sums.cq"), *inputs])
    assert "--input may be given only once" in str(done.exception)


def test_store_query(folder: Path) -> None:
    store = cepheid.EventStore(folder / "store")
    store.append(FEW)
    found = run("store", "query", folder / "store", folder / "sums.cq", "--format", "csv")
    assert found.splitlines()[1:] == ["-4,0,3", "0,4,4", "4,8,8"]
    shown = run("store", "query", folder / "store", folder / "sums.cq", "--explain")
    assert shown.startswith("store  windowed aggregation")


def test_check_and_explain(folder: Path) -> None:
    assert run("check", folder / "join.cq")
    assert "windowed join" in run("explain", folder / "join.cq", "--engine", "spark")
    assert run("explain", folder / "join.cq", "--format", "mermaid").startswith("flowchart LR")
    assert run("explain", folder / "join.cq", "--format", "json").startswith("{")
