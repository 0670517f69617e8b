"""The first mistakes of people who are new: the command line answers with its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.interfaces.program import run

import cepheid

if TYPE_CHECKING:
    from pathlib import Path

CLICKS = pa.table(
    {
        "ts": [1, 2, 3, 4],
        "event_type": ["product", "addcart", "product", "purchase"],
        "session": [1, 1, 2, 1],
    }
)
FUNNEL = "RETURN COUNT(*) PATTERN SEQ(product, addcart, purchase)"


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Write the clicks to a file."""
    path = tmp_path / "clicks.parquet"
    parquet.write_table(CLICKS, path)
    return path


def test_a_missing_type_column_is_no_answer() -> None:
    with pytest.raises(cepheid.BindError, match=r"E216.*no type column `type`"):
        cepheid.query(FUNNEL).run(CLICKS)
    named = cepheid.query(FUNNEL, type="event_type")
    assert named.run(CLICKS)["count"].to_pylist() == [1]


def test_a_named_type_column_must_be_there() -> None:
    with pytest.raises(cepheid.BindError, match=r"E216.*no type column `kind`"):
        cepheid.query("RETURN COUNT(*) PATTERN product+", type="kind").run(CLICKS)


def test_events_may_be_of_one_type() -> None:
    untyped = CLICKS.drop_columns(["event_type"])
    one = cepheid.query("RETURN COUNT(*) PATTERN Click+").run(untyped)
    pairs = cepheid.query("RETURN COUNT(*) PATTERN SEQ(a, b)", type=None).run(untyped)
    assert [one["count"][0].as_py(), pairs["count"][0].as_py()] == [15, 6]
    # Types that there are do not count then.
    typed = untyped.append_column("type", pa.array(["a", "a", "a", "b"]))
    every = cepheid.workload([cepheid.query("RETURN COUNT(*) PATTERN SEQ(a, b)", type=None)])
    assert every.run(typed)["count"].to_pylist() == [6]


def test_the_command_line_speaks_of_its_options(clicks: Path) -> None:
    done = run("run", "-", "--input", clicks, stdin=FUNNEL)
    assert done.returncode == 1
    assert "name it: `--type event_type`" in done.stderr
    assert "say so: `--type ''`" in done.stderr
    assert "cepheid.query" not in done.stderr
    options = ("run", "-", "--input", clicks, "--format", "csv", "--type")
    named = run(*options, "event_type", stdin=FUNNEL)
    assert named.stdout.splitlines()[1:] == ["1"], named.stderr
    every = run(*options, "", stdin=FUNNEL)
    assert every.stdout.splitlines()[1:] == ["4"], every.stderr


def test_the_command_line_names_the_time_option(clicks: Path) -> None:
    done = run("check", "-", "--schema", clicks, "--time", "when", stdin="PATTERN product+")
    assert "name it: `--time TIME`" in done.stderr
