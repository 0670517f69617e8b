"""The command line, as a person uses it: what it prints, and with which code it ends."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from pyspark.sql import SparkSession
from tests.interfaces.program import PROGRAM, run, run_in

import cepheid
from cepheid.errors import CepheidError
from cepheid.interfaces.catalogue import error_pages
from cepheid.plans.plan import Plan

GOOD = "RETURN COUNT(*) PATTERN Stock S+ WHERE S.price > NEXT(S).price WITHIN 5 s SLIDE 1 s"
BAD = "RETURN COUNT(*) PATTERN Stock S+ WITHIN 5 s SLIDE 10 s"
EVENTS = pa.table({"ts": pa.array([1], pa.timestamp("us")), "type": ["Stock"], "price": [1.5]})


def test_check_says_ok() -> None:
    done = run("check", "-", stdin=GOOD, own=True)
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


def test_warnings_name_the_file_like_errors(tmp_path: Path) -> None:
    text = "RETURN COUNT(*) PATTERN A WHERE A.k = passive WITHIN 5 s"
    path = tmp_path / "query.cq"
    path.write_text(text)
    column = text.index("passive") + 1
    assert f" --> <stdin>:1:{column}\n" in run("check", "-", stdin=text).stderr
    assert f" --> {path}:1:{column}\n" in run("check", path).stderr
    assert f" --> {path}:1:{column}\n" in run("explain", path).stdout
    assert f" --> <stdin>:1:{column}\n" in run("explain", "-", stdin=text).stdout


def test_a_missing_file_does_not_hide_the_others(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.cq", tmp_path / "good.cq"
    bad.write_text(BAD)
    good.write_text(GOOD)
    done = run("check", "no-such-file.cq", bad, good)
    assert done.returncode == 2
    assert "cepheid: could not read no-such-file.cq" in done.stderr
    assert "error[E305]" in done.stderr
    assert done.stdout == f"{good}: ok\n"


def test_a_file_name_that_is_not_utf8_is_printed(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.cq"
    Path(os.fsdecode(path)).write_text(GOOD)
    done = run("check", os.fsdecode(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\ufffd.cq: ok\n")


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
    done = run("explain", "-", stdin=GOOD, own=True)
    assert done.returncode == 0
    assert "evaluator   indexed (mixed-grained)" in done.stdout


def test_explain_tells_of_engines() -> None:
    assert "on Spark" in run("explain", "-", "--engine", "spark", stdin=GOOD).stdout
    assert "\nchanges\n├─ " in run("explain", "-", "--changes", stdin=GOOD).stdout
    assert "device  cpu: " in run("explain", "-", "--engine", "gpu", stdin=GOOD).stdout
    done = run("explain", "-", "--engine", "x", stdin=GOOD)
    assert done.returncode == 2
    assert done.stderr == "cepheid: --engine is local, spark or gpu, not x\n"


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


def test_explain_reads_the_columns_of_a_folder_of_parquet(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    (folder / "day=1").mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    (folder / "day=1" / ".part-0.parquet.crc").write_bytes(b"crc")
    parquet.write_table(EVENTS, folder / "day=1" / "part-0.snappy.parquet")
    text = GOOD.replace("WHERE", "WHERE S.day = 1 AND")
    done = run("explain", "-", "--schema", folder, stdin=text)
    assert done.returncode == 0, done.stderr


def test_a_folder_without_parquet_is_reported(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    done = run("explain", "-", "--schema", tmp_path, stdin=GOOD)
    assert done.returncode == 1
    assert done.stderr.startswith("error[E501]")
    assert "the folder holds no Parquet files" in done.stderr


def test_explain_reads_the_columns_of_an_arrow_stream(tmp_path: Path) -> None:
    path = tmp_path / "events.arrow"
    with ipc.new_stream(str(path), EVENTS.schema) as writer:
        writer.write_table(EVENTS)
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 0, done.stderr


def test_a_csv_file_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes("ts,type,größe\n1,Stock,2\n".encode("latin-1"))
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 1
    assert done.stderr.startswith("error[E501]: could not read the columns of")
    assert "its header is not UTF-8 text" in done.stderr


def test_a_long_line_of_json_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(msgspec.json.encode({"ts": 1, "text": "x" * (1 << 20)}) + b"\n")
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 1
    assert "its first line is longer than 1 MiB" in done.stderr


def test_a_long_line_of_json_after_the_first_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    event = {"ts": 1, "type": "Stock", "price": 1.5}
    lines = [event, {**event, "text": "x" * 900_000}, {**event, "text": "x" * 900_000}]
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    done = run("explain", "-", "--schema", path, stdin=GOOD)
    assert done.returncode == 0, done.stderr


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    for ending in ("parquet", "arrow", "csv", "jsonl"):
        path = tmp_path / f"events.{ending}"
        path.touch()
        done = run("explain", "-", "--schema", path, stdin=GOOD)
        assert done.stderr.startswith("error[E501]"), done.stderr


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
    assert run("fmt", path, own=True).stdout == wanted
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


def test_fmt_prints_texts_as_they_are() -> None:
    text = "PATTERN A WHERE A.x = 'a\tb\x07\x1b[0m\r\nc :smile: [bold]'"
    wanted = text.replace(" WHERE", "\nWHERE")
    assert run("fmt", "-", stdin=text).stdout == f"{wanted}\n"
    shown = run("explain", "-", "--format", "json", stdin=text).stdout
    assert Plan.from_json(shown.encode()).text == text


def test_fmt_writes_through_a_link_and_keeps_the_mode(tmp_path: Path) -> None:
    path, link = tmp_path / "query.cq", tmp_path / "link.cq"
    path.write_text("pattern A")
    path.chmod(0o640)
    link.symlink_to(path.name)
    assert run("fmt", link, "--write").returncode == 0
    assert link.is_symlink()
    assert path.read_text() == "PATTERN A\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    path = tmp_path / "query.cq"
    path.write_text("pattern A")
    # A limit of no bytes stops root too, unlike the mode of the folder.
    command = f'ulimit -f 0; exec "{PROGRAM}" fmt "{path}" --write'
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 2
    assert done.stderr == f"cepheid: could not write {path}: File too large\n"
    assert path.read_text() == "pattern A"
    assert [file.name for file in tmp_path.iterdir()] == ["query.cq"]


@pytest.mark.parametrize("arguments", [("demo",), ("fmt", "-"), ("explain", "-"), ("check", "-")])
def test_a_reader_that_stops_early_is_no_mistake(arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [PROGRAM, *arguments],
            input=GOOD.encode(),
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
            timeout=240,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


LINEAR = "RETURN COUNT(*), SUM(S.price) AS total PATTERN Stock S+"


def test_run_prints_and_writes_results(tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    parquet.write_table(EVENTS, events)
    shown = run("run", "-", "--input", events, stdin=LINEAR, own=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "1 row" in shown.stdout
    as_csv = run("run", "-", "--input", events, "--format", "csv", stdin=LINEAR, own=True)
    assert as_csv.stdout == '"count","total"\n1,1.5\n'
    as_json = run("run", "-", "--input", events, "--format", "json", stdin=LINEAR, own=True)
    assert json.loads(as_json.stdout) == {"count": 1.0, "total": 1.5}
    written = tmp_path / "result.parquet"
    assert (
        run("run", "-", "--input", events, "--output", written, stdin=LINEAR, own=True).stdout == ""
    )
    assert parquet.read_table(written).to_pylist() == [{"count": 1.0, "total": 1.5}]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.parquet", "result.parquet"]


def test_values_that_csv_has_no_form_for_are_json_text(tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    columns: dict[str, Any] = {
        "ts": [1, 2],
        "items": [["a", 'b"'], None],
        "place": [{"x": 1, "y": [2.5]}, None],
        "raw": pa.array([b"\xff\x00", None], pa.binary()),
        "plain": ["é", None],
    }
    parquet.write_table(pa.table(columns), events)
    query = "SELECT items, place, raw, plain FROM e"
    done = run("run", "-", "--input", events, "--format", "csv", stdin=query)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        '"items","place","raw","plain"',
        '"[""a"",""b\\""""]","{""x"":1,""y"":[2.5]}","/wA=","é"',
        ",,,",
    ]


def test_run_says_what_is_wrong(tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    parquet.write_table(EVENTS, events)
    assert "E501" in run("run", "-", "--input", tmp_path / "no*", stdin=LINEAR).stderr
    assert "E201" in run("run", "-", "--input", events, stdin=LINEAR.replace("price", "x")).stderr
    wrong = run("run", "-", "--input", events, "--format", "xml", stdin=LINEAR)
    assert wrong.returncode == 2


def test_run_lists_matches(tmp_path: Path) -> None:
    events, query = tmp_path / "events.parquet", "RETURN MATCHES PATTERN Stock S+"
    parquet.write_table(EVENTS, events)
    shown = run("run", "-", "--input", events, stdin=query, own=True)
    assert shown.returncode == 0, shown.stderr
    assert "match_id" in shown.stdout
    expected = cepheid.query(query).run(EVENTS)
    as_json = run("run", "-", "--input", events, "--format", "json", stdin=query)
    ids = [json.loads(line)["match_id"] for line in as_json.stdout.splitlines()]
    assert ids == expected["match_id"].to_pylist()
    as_csv = run("run", "-", "--input", events, "--format", "csv", stdin=query)
    assert len(as_csv.stdout.splitlines()) == 1 + len(expected)
    written = tmp_path / "result.parquet"
    assert run("run", "-", "--input", events, "--output", written, stdin=query).stdout == ""
    assert parquet.read_table(written).to_pylist() == expected.to_pylist()


def test_run_shows_the_first_matches_of_many(tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    parquet.write_table(pa.table({"ts": range(60), "type": ["Stock"] * 60}), events)
    shown = run("run", "-", "--input", events, stdin="RETURN MATCHES PATTERN Stock S+")
    assert shown.returncode == 0, shown.stderr
    assert "the first matches only" in shown.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_run_with_spark_gives_the_same(tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    parquet.write_table(EVENTS, events)
    spark = ("--engine", "spark", "--master", "local[1]")
    shown = run("run", "-", "--input", events, "--format", "csv", *spark, stdin=LINEAR)
    assert (shown.stderr, shown.stdout) == ("", '"count","total"\n1,1.5\n')
    assert run("run", "-", "--input", events, "--master", "x", stdin=LINEAR).returncode == 2
    assert run("run", "-", "--input", events, "--engine", "x", stdin=LINEAR).returncode == 2


@pytest.mark.spark
def test_missing_files_are_said_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CepheidError, match=r"error\[E501\]: no file matches"):
        run_in(
            spark, "run", "-", "--input", tmp_path / "no.parquet", "--engine", "spark", stdin=LINEAR
        )


@pytest.mark.spark
def test_matches_with_spark_are_written_as_they_are_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    events, written = tmp_path / "events.parquet", tmp_path / "out" / "result.parquet"
    written.parent.mkdir()
    times = pa.array(range(16), pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"ts": times, "type": ["Stock"] * 16, "price": range(16)}), events)
    text = "RETURN MATCHES PATTERN Stock S+"
    places = ("--input", events, "--output", written)
    assert run_in(spark, "run", "-", *places, "--engine", "spark", stdin=text) == ""
    assert [path.name for path in written.parent.iterdir()] == ["result.parquet"]
    found = parquet.read_table(written)
    assert found.schema.field("events").type.value_type.field("ts").type == times.type
    rows = found.select(["events"]).to_pylist()
    listed = {tuple(event["price"] for event in row["events"]) for row in rows}
    assert len(found) == len(listed) == 2**16 - 1


def test_a_missing_java_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "events.parquet"
    parquet.write_table(EVENTS, events)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    shown = run("run", "-", "--input", events, "--engine", "spark", stdin=LINEAR)
    assert shown.returncode == 1
    assert "error[E522]: Spark needs Java 17 or newer, and there is no Java" in shown.stderr
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    shown = run("run", "-", "--input", events, "--engine", "spark", stdin=LINEAR)
    assert "and Java 8 is too old" in shown.stderr


def test_version_is_printed() -> None:
    assert run("--version", own=True).stdout.startswith("cepheid 0.")


@pytest.mark.parametrize("query", ["SELECT k FROM e", "RETURN MATCHES PATTERN A a"])
def test_a_result_that_cannot_be_written_is_wrong_use(tmp_path: Path, query: str) -> None:
    events = tmp_path / "events.csv"
    events.write_text("ts,type,k\n1,A,1\n")
    output = tmp_path / "missing" / "rows.csv"
    done = subprocess.run(
        [PROGRAM, "run", "-q", query, "--input", events, "--output", output],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 2
    assert done.stderr == f"cepheid: could not write {output}: No such file or directory\n"
