"""``cepheid run``: queries as texts and SQL, events from standard input and packed files."""

from __future__ import annotations

import bz2
import gzip
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from tests.interfaces.program import PROGRAM, run

from cepheid.interfaces.tables import texts_of

EVENTS = pa.table(
    {
        "ts": pa.array([0, 60, 120, 180], pa.timestamp("s")),
        "type": ["A", "A", "B", "B"],
        "x": [1.0, 2.5, None, 4.0],
    }
)
COUNT = "RETURN COUNT(*) PATTERN SEQ(A+, B)"
CLAUSE = """
-- the first B after an A
SELECT a, b FROM events MATCH_RECOGNIZE (
  ORDER BY ts MEASURES A.ts AS a, B.ts AS b PATTERN (A B) DEFINE A AS type = 'A', B AS type = 'B')
"""


def text_of(kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    if kind == "json":
        return b"".join(b'{"ts": "%b", "type": "%b"}\n' % row for row in rows())
    options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
    csv.write_csv(EVENTS, sink, options)
    return sink.getvalue().to_pybytes()


def rows() -> list[tuple[bytes, bytes]]:
    times = EVENTS["ts"].cast(pa.string()).to_pylist()
    return [
        (str(t).encode(), str(k).encode())
        for t, k in zip(times, EVENTS["type"].to_pylist(), strict=True)
    ]


def packed(write: Callable[[pa.Table, Path], object], folder: Path) -> bytes:
    path = folder / "packed"
    write(EVENTS, path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["csv", "tsv", "json"])
@pytest.mark.parametrize("pack", ["", ".gz", ".bz2"])
def test_texts_are_read_packed_or_not(kind: str, pack: str, tmp_path: Path) -> None:
    data = text_of(kind)
    if pack:
        data = gzip.compress(data) if pack == ".gz" else bz2.compress(data)
    path = tmp_path / f"events.{'jsonl' if kind == 'json' else kind}{pack}"
    path.write_bytes(data)
    done = run("run", "-q", COUNT, "--input", path, "--format", "csv")
    assert (done.stdout, done.stderr) == ('"count"\n6\n', "")
    assert run("check", "-", "--schema", path, stdin=COUNT).returncode == 0


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "parquet", "arrow", "gzip"])
def test_events_come_from_standard_input(kind: str, named: bool, tmp_path: Path) -> None:  # noqa: FBT001
    if kind == "parquet":
        data = packed(lambda table, path: parquet.write_table(table, path), tmp_path)
    elif kind == "arrow":
        data = packed(lambda table, path: feather.write_feather(table, str(path)), tmp_path)
    else:
        data = gzip.compress(text_of("csv")) if kind == "gzip" else text_of(kind)
    more = ("--input-format", "csv" if kind == "gzip" else kind) if named else ()
    done = run("run", "-q", COUNT, "--input", "-", "--format", "csv", *more, stdin=data)
    assert (done.stdout, done.stderr) == ('"count"\n6\n', "")


@pytest.mark.parametrize(
    ("data", "message"), [("", "nothing came"), ('[{"ts": 1}]', "one JSON array")]
)
def test_what_is_no_stream_of_events_is_told(data: str, message: str) -> None:
    done = run("run", "-q", COUNT, "--input", "-", stdin=data)
    assert done.returncode == 2
    assert message in done.stderr


def test_mistakes_of_a_text_show_their_place() -> None:
    done = run("run", "-q", "RETURN COUNT(*) PATTERN A+ WITHIN 5 s SLIDE 10 s", "--input", "x.csv")
    assert done.returncode == 1
    assert " --> query:1:45\n" in done.stderr
    assert "linear" in run("explain", "-q", COUNT).stdout


def test_sql_files_run(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    (tmp_path / "match.sql").write_text(CLAUSE)
    (tmp_path / "select.sql").write_text("SELECT type, SUM(x) FROM events GROUP BY type")
    events = tmp_path / "events.parquet"
    expected = '"a","b"\n1970-01-01 00:01:00{0},1970-01-01 00:02:00{0}\n'
    for given in (events, f"events={events}"):
        done = run("run", tmp_path / "match.sql", "--input", given, "--format", "csv")
        assert (done.stdout, done.stderr) == (expected.format(".000"), "")
    done = run("run", "-q", CLAUSE, "--input", "-", "--format", "csv", stdin=text_of("csv"))
    assert done.stdout == expected.format("")
    done = run("run", tmp_path / "select.sql", "--input", events, "--format", "csv")
    assert done.stdout == '"type","sum_x"\n"A",3.5\n"B",4\n'
    assert run("check", tmp_path / "match.sql").stdout == f"{tmp_path / 'match.sql'}: ok\n"


def test_sql_that_cannot_run_says_why(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    given = ("--input", tmp_path / "events.parquet")
    wrong = run("run", "-q", CLAUSE.replace("(A B)", "(A B"), *given)
    assert wrong.returncode == 1
    assert " --> query:" in wrong.stderr
    assert run("check", "-", stdin=CLAUSE.replace("(A B)", "(A B")).returncode == 1
    for words, message in (
        (("-q", CLAUSE, *given, "--time", "t"), "--time has no effect here"),
        (("-q", CLAUSE, *given, *given), "as --input events=files"),
        (("-q", f"{CLAUSE} UNION {CLAUSE}", *given), "add --engine spark"),
    ):
        done = run("run", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    assert "plan  a row pattern" in run("explain", "-q", CLAUSE).stdout
    named = f"WITH t AS ({CLAUSE}) SELECT * FROM t"
    assert "which `cepheid run` runs" in run("explain", "-q", named).stderr


def test_tables_fit_eighty_columns(tmp_path: Path) -> None:
    times = pa.array([datetime(2024, 5, 1, 8, 0, second, tzinfo=UTC) for second in (1, 2, 3)])
    wide = {f"c{number}": ["word"] * 3 for number in range(20)}
    table = pa.table({"ts": times, "type": ["A", "A", "B"], "x": [1.0, 1.5, 2.0], **wide})
    parquet.write_table(table.select(["ts", "type", "x"]), tmp_path / "e.parquet")
    parquet.write_table(table, tmp_path / "wide.parquet")
    done = run("run", "-q", "RETURN MATCHES PATTERN SEQ(A, B)", "--input", tmp_path / "e.parquet")
    assert "events of 2024-05-01" in done.stdout
    assert "│        1 │ A  08:00:02  type=A  x=1.5 │" in done.stdout
    assert "│          │ B  08:00:03  type=B  x=2   │" in done.stdout
    shown = run("run", "-q", "SELECT * FROM s", "--input", tmp_path / "wide.parquet").stdout
    assert "│ ts   │ 2024-05-01 08:00:01 │" in shown
    assert "│ c19  │ word                │" in shown
    assert max(map(len, (done.stdout + shown).splitlines())) <= 80


def test_values_break_no_line_of_a_table(tmp_path: Path) -> None:
    odd = pa.table({"ts": [1], "type": ["A"], "x": ["a\nB  2  x=\x1b[2J"]})
    parquet.write_table(odd, tmp_path / "odd.parquet")
    for query in ("RETURN MATCHES PATTERN A", "SELECT x FROM s"):
        done = run("run", "-q", query, "--input", tmp_path / "odd.parquet")
        assert "\x1b" not in done.stdout
        assert len(done.stdout.splitlines()) == 6


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1.0, -2e15, 0.1, None], pa.float64(), ["1", "-2e+15", "0.1", ""]),
        ([0, 86_400], pa.timestamp("s"), ["1970-01-01", "1970-01-02"]),
        ([0, 3660, None], pa.timestamp("s", "UTC"), ["1970-01-01 00:00", "1970-01-01 01:01", ""]),
        (
            [0, 1],
            pa.timestamp("s", "Europe/Berlin"),
            ["1970-01-01 00:00:00", "1970-01-01 00:00:01"],
        ),
        ([1], pa.timestamp("ns"), ["1970-01-01 00:00:00.000000001"]),
        ([[1, 2], None], pa.list_(pa.int64()), ["[1, 2]", ""]),
        ([{"a": 1.0}], pa.struct([("a", pa.float64())]), ["a=1"]),
        ([[{"variable": "A", "x": None}], [], None], None, ["A", "", ""]),
    ],
)
def test_values_are_shown_short(values: list[object], kind: pa.DataType, texts: list[str]) -> None:
    assert texts_of(pa.chunked_array([pa.array(values, kind)])) == texts


def test_the_shell_completes_commands_and_help_names_exit_codes() -> None:
    words = {"_CEPHEID_COMPLETE": "complete_bash", "COMP_WORDS": "cepheid che", "COMP_CWORD": "1"}
    done = subprocess.run(
        [str(PROGRAM)], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["check"]
    assert "Exit codes: 0 all went well; 1 a query, a rule or data" in run("--help").stdout
