"""The command line, as a person uses it: what it prints, and with which code it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from cepheid.interfaces.catalogue import bundled_queries, error_pages
from cepheid.planner.plan import Plan

GOOD = "RETURN COUNT(*) PATTERN Stock S+ WHERE S.price > NEXT(S).price WITHIN 5 s SLIDE 1 s"
BAD = "RETURN COUNT(*) PATTERN Stock S+ WITHIN 5 s SLIDE 10 s"
EVENTS = pa.table({"ts": pa.array([1], pa.timestamp("us")), "type": ["Stock"], "price": [1.5]})


def run(*arguments: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
    """Run the installed program; its output is decoded, whatever it was given."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    program = Path(sys.executable).with_name("cepheid")
    done = subprocess.run(
        [program, *map(str, arguments)], input=data, capture_output=True, check=False, timeout=60
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_check_says_ok() -> None:
    done = run("check", "-", stdin=GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "<stdin>: ok\n", "")


def test_check_prints_every_mistake_of_every_file(tmp_path: Path) -> None:
    good, bad, worse = (tmp_path / name for name in ("good.cq", "bad.cq", "worse.cq"))
    good.write_text(GOOD)
    bad.write_text(BAD)
    worse.write_text("PATTERN")
    done = run("check", bad, good, worse)
    assert done.returncode == 1
    assert done.stdout == f"{good}: ok\n"
    assert "error[E305]" in done.stderr
    assert f" --> {bad}:1:{BAD.index('10 s') + 1}" in done.stderr
    assert "error[E101]" in done.stderr
    assert "Traceback" not in done.stderr


def test_warnings_are_shown_and_do_no_harm() -> None:
    done = run("check", "-", stdin="RETURN COUNT(*) PATTERN A WHERE A.k = passive WITHIN 5 s")
    assert done.returncode == 0
    assert "warning[W204]" in done.stderr


def test_a_missing_file_is_wrong_use() -> None:
    done = run("check", "no-such-file.cq")
    assert done.returncode == 2
    assert done.stderr == "cepheid: could not read no-such-file.cq: No such file or directory\n"


def test_text_that_is_not_utf8_is_reported_with_its_line() -> None:
    done = run("check", "-", stdin=b"PATTERN A\nWHERE A.x = '\xff'")
    assert done.returncode == 1
    assert "error[E502]: `<stdin>` is not UTF-8 text: byte 0xff in line 2" in done.stderr


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert run("check", "-", stdin=b"\xef\xbb\xbfPATTERN A WITHIN 5 s").returncode == 0


@pytest.mark.parametrize(
    "arguments", [("check",), ("no-such-command",), ("explain", "-", "--fast")]
)
def test_wrong_use_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, stdin=GOOD).returncode == 2


def test_explain_prints_the_plan() -> None:
    done = run("explain", "-", stdin=GOOD)
    assert done.returncode == 0
    assert "evaluator   indexed (mixed-grained)" in done.stdout


def test_explain_prints_mermaid() -> None:
    done = run("explain", "-", "--format", "mermaid", stdin=GOOD)
    assert done.stdout.startswith("flowchart LR\n")


def test_explain_prints_a_plan_that_can_be_read_back() -> None:
    done = run("explain", "-", "--format", "json", stdin=GOOD)
    assert Plan.from_json(done.stdout.encode()).text == GOOD
    assert json.loads(done.stdout)["choice"]["evaluator"] == "indexed"


def test_explain_knows_no_other_format() -> None:
    done = run("explain", "-", "--format", "xml", stdin=GOOD)
    assert done.returncode == 2
    assert done.stderr == "cepheid: --format is text, mermaid or json, not xml\n"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl"])
def test_explain_reads_the_columns_of_a_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"events.{ending}"
    match ending:
        case "parquet":
            parquet.write_table(EVENTS, path)
        case "arrow":
            feather.write_feather(EVENTS, path)
        case "csv":
            csv.write_csv(EVENTS, path)
        case _:
            path.write_bytes(msgspec.json.encode({"ts": 1, "type": "Stock", "price": 1.5}) + b"\n")
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 0, done.stderr
    done = run("explain", "-", "--schema", path, stdin=GOOD.replace("price", "prise"))
    assert done.returncode == 1
    assert "did you mean `price`?" in done.stderr


def test_other_column_names_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    parquet.write_table(EVENTS.rename_columns(["at", "kind", "price"]), path)
    assert "E212" in run("check", "-", "--schema", path, stdin=GOOD).stderr
    names = ("--time", "at", "--type", "kind")
    assert run("check", "-", "--schema", path, *names, stdin=GOOD).returncode == 0


@pytest.mark.parametrize("name", ["broken.parquet", "broken.arrow", "broken.jsonl", "events.txt"])
def test_a_damaged_file_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PAR1 not really")
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 1
    assert done.stderr.startswith("error[E501]: could not read the columns of")
    assert "Traceback" not in done.stderr


def test_explain_prints_the_page_of_a_code() -> None:
    done = run("explain", "e305")
    assert done.returncode == 0
    assert done.stdout.startswith("E305 SLIDE is longer than WITHIN\n")
    assert done.stdout.strip() == error_pages()["E305"]


def test_explain_says_that_there_is_no_such_code() -> None:
    done = run("explain", "E999")
    assert done.returncode == 2
    assert "there is no diagnostic E999" in done.stderr


def test_fmt_prints_and_writes_and_checks(tmp_path: Path) -> None:
    path = tmp_path / "query.cq"
    path.write_text("-- stocks\npattern Stock S+ return count(*)\n")
    wanted = "-- stocks\nRETURN COUNT(*)\nPATTERN Stock S+\n"
    assert run("fmt", path).stdout == wanted
    assert run("fmt", path, "--check").returncode == 1
    assert run("fmt", path, "--write").returncode == 0
    assert run("fmt", path, "--check").returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["query.cq"]


def test_fmt_leaves_a_file_with_a_mistake_alone(tmp_path: Path) -> None:
    path = tmp_path / "query.cq"
    path.write_text("PATTERN (")
    done = run("fmt", path, "--write")
    assert done.returncode == 1
    assert f" --> {path}:1:" in done.stderr
    assert path.read_text() == "PATTERN ("


def test_demo_plans_the_queries_of_the_papers() -> None:
    done = run("demo")
    assert done.returncode == 0
    for name, _ in bundled_queries():
        assert name in done.stdout
    assert "vehicle only among events of P" in done.stdout


def test_version_is_printed() -> None:
    assert run("--version").stdout.startswith("cepheid 0.")
