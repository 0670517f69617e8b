"""What data, columns and files are called steers no terminal, and stays as it is in pipes."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.interfaces.program import PROGRAM, run, start_copy, wait_for

from cepheid.errors import DataError, Diagnostic, visible
from cepheid.interfaces.chart import bar_chart

CLEAR, TITLE, OVERRIDE = "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\u202e"
EVIL = f"{CLEAR}{TITLE}{OVERRIDE}\u2066\x9b2J\u2028[/red][bold]\nerror[E999]: fake"
COLUMN = f"g{TITLE}{OVERRIDE}"
FINE = "Zoë 👩‍🚀 می‌خواهم"
STEERS = (*CLEAR, "\x07", "\x9b", OVERRIDE, "\u2066", "\u2028")


def on_terminal(*words: object, stdin: str = "") -> str:
    """Return what a command prints where both of its outputs are a terminal without colours."""
    inner, outer = pty.openpty()
    settings = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "400"}
    with tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        files = (given.fileno(), outer, outer)
        process = start_copy([str(PROGRAM), *map(str, words)], files, settings)
    os.close(outer)
    said = b"".join(_read(inner))
    wait_for(process)
    os.close(inner)
    return said.decode().replace("\r\n", "\n")


def _read(end: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(end, 1 << 16)
        except OSError:  # Linux says so when nobody holds the other end any more.
            return
        if not data:
            return
        yield data


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return a file with a bad name, a bad column and bad values, not in the order of time."""
    values = [EVIL, "fine", FINE]
    table = pa.table({"ts": [1, 3, 2], "type": ["A"] * 3, COLUMN: values})
    path = tmp_path / f"e{CLEAR}{OVERRIDE}.parquet"
    parquet.write_table(table, path)
    return path


QUOTED = f"`{COLUMN}`"
COUNT = f"RETURN {QUOTED}, COUNT(*) PATTERN A GROUP-BY {QUOTED}"
LIST = "RETURN MATCHES PATTERN A"


def is_clean(text: str) -> bool:
    return not any(character in text for character in STEERS if character not in "[2JH")


QUERIES = (COUNT, LIST, f"SELECT {QUOTED} FROM s", f"PATTERN A WHERE A.{QUOTED} = 5")


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_results_and_messages_on_a_terminal(events: Path, text: str, form: str) -> None:
    said = on_terminal("run", "-", "--input", events, "--format", form, stdin=text)
    assert is_clean(said), ascii(said)
    assert "\\x1b" in said or "\\u001b" in said
    # CSV has lines inside of values.
    assert form == "csv" or not any(line.startswith("error[E999]") for line in said.splitlines())


def test_tables_keep_brackets_and_other_scripts(events: Path) -> None:
    said = on_terminal("run", "-", "--input", events, stdin=COUNT)
    assert "[/red][bold]" in said
    assert FINE in said


@pytest.mark.parametrize("form", ["csv", "json"])
def test_pipes_get_data_as_it_is(events: Path, form: str) -> None:
    done = run("run", "-", "--input", events, "--format", form, stdin=COUNT)
    assert done.returncode == 0, done.stderr
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    else:
        rows = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert {row[COLUMN] for row in rows} >= {EVIL, "fine"}
    assert is_clean(done.stderr), "messages are for people everywhere"


def test_names_of_files_and_plans(events: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / f"good{TITLE}\nerror[E999].cq", tmp_path / f"bad{CLEAR}.cq"
    good.write_text(COUNT)
    bad.write_text(f"PATTERN {CLEAR} A")
    missing = tmp_path / f"missing{TITLE}"
    said = [
        on_terminal("check", good, bad, missing),
        on_terminal("explain", good),
        on_terminal("explain", good, "--format", "json"),
        on_terminal("explain", good, "--format", "mermaid"),
        on_terminal("fmt", good),
        on_terminal("run", good, "--input", missing),
        on_terminal("run", good, "--input", events, EVIL, EVIL),
        on_terminal("store", "append", tmp_path / "store", events),
        on_terminal("store", "info", tmp_path / "store"),
        on_terminal("store", "query", tmp_path / "store", good),
        on_terminal("store", "query", tmp_path / "store", good, "--explain"),
        on_terminal(f"{TITLE}"),
    ]
    for text in said:
        assert is_clean(text), ascii(text)
        assert text
    assert not any(line.startswith("error[E999]") for text in said for line in text.splitlines())


def test_a_terminal_gets_no_parquet(events: Path) -> None:
    said = on_terminal("run", "-", "--input", events, "--format", "parquet", stdin=LIST)
    assert said == "cepheid: Parquet is not text: add --output, or pipe it to another program\n"


def test_errors_are_one_line_a_sentence() -> None:
    error = DataError([Diagnostic("E501", f"could not read `{EVIL}`", helps=(EVIL,))], file=EVIL)
    assert is_clean(str(error))
    assert len(str(error).splitlines()) == 2


def test_charts_show_what_labels_are() -> None:
    assert is_clean(bar_chart(pa.table({"g": [EVIL, "b"], "count": [1.0, 2.0]}), "count"))


@given(st.text())
def test_what_is_visible_stays(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert "\n" not in shown
    if text.isprintable():
        assert shown == text
