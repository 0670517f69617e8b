"""``cepheid store``, as a person uses it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from cepheid.interfaces.cli import app
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.options import OptionError
from cepheid.store.rates import Rates, rates_file, read_rates

QUERY = "RETURN COUNT(*) PATTERN E WHERE E.x > 5 WITHIN 10 us SLIDE 10 us"


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app.typer(), ["store", *map(str, arguments)])
    is_wrong_use = isinstance(done.exception, WrongUseError | OptionError)
    return 2 if is_wrong_use else done.exit_code, done.output


def test_a_store_from_files_to_rows(tmp_path: Path) -> None:
    store, files, query = tmp_path / "store", tmp_path / "files", tmp_path / "query.cq"
    files.mkdir()
    query.write_text(QUERY)
    for n in range(2):
        table = pa.table({"ts": [10 * n + 1, 10 * n + 2], "x": [1.0, 9.0 * n]})
        parquet.write_table(table, files / f"{n}.parquet")
    assert run("append", store, files) == (0, "4 events appended, version 2\n")
    assert run("index", store, "x") == (0, "indexed: x\n")
    assert run("query", store, query, "--format", "csv")[1].splitlines()[-1] == "10,20,1"
    assert "every match has E (x > 5.0)" in run("query", store, query, "--explain")[1]
    assert run("query", store, query, "--method", "guess")[0] == 2
    assert run("query", store, query, "--format", "xml")[0] == 2
    query.write_text(
        "SELECT * FROM events MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS at PATTERN (A) "
        "DEFINE A AS x > 5)"
    )
    assert run("query", store, query, "--format", "csv")[1].splitlines()[-1] == "12"
    assert "every match has A (x > 5.0)" in run("query", store, query, "--explain")[1]
    assert run("query", store, query, "--method", "guess")[0] == 2
    assert run("compact", store) == (0, "2 segments, now 1\n")
    assert run("clean", store, "--older-than", 0) == (0, "6 files removed\n")
    assert run("verify", store)[1].endswith("bytes: all sound\n")
    told = run("info", store)[1].splitlines()
    assert told[0] == "version   5"
    assert told[1].startswith("events    4 in 1 segments")
    assert told[2:6] == ["from      1", "to        12", "indexed   x", "column    ts int64"]
    damaged = next((store / "segments").glob("*"))
    damaged.write_bytes(b"")
    code, text = run("verify", store)
    assert (code, "1 damaged" in text) == (1, True)


def test_files_of_others_are_opened_in_place(tmp_path: Path) -> None:
    times = pa.array([1, 2], pa.timestamp("us"))
    parquet.write_table(pa.table({"at": times}), tmp_path / "a.parquet")
    code, text = run("open", tmp_path, "--time", "at", "--index-at", tmp_path / "_i")
    assert (code, text.startswith("2 events, index in ")) == (0, True)
    assert "from      1970-01-01 00:00:00.000001" in run("info", tmp_path / "_i")[1]


def test_figures_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "here" / "rates.json"
    monkeypatch.setenv("CEPHEID_RATES", str(path))
    assert read_rates() == Rates()
    with patch("cepheid.runtimes.calibrate.ROWS", 1 << 14):
        code, text = run("calibrate")
    assert (code, text.splitlines()[-1].endswith(str(path))) == (0, True)
    found = read_rates()
    assert found != Rates()
    assert all(value > 0 for value in msgspec.structs.astuple(found))
    for nonsense in ("no json", '{"group": -1.0}', '{"run": "fast"}'):
        path.write_text(nonsense)
        os.utime(path, ns=(1, len(nonsense)))
        assert read_rates() == Rates()
    monkeypatch.delenv("CEPHEID_RATES")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert rates_file() == tmp_path / "cepheid" / "store-rates.json"


def test_a_store_that_lost_a_manifest_goes_back(tmp_path: Path) -> None:
    store, file = tmp_path / "store", tmp_path / "a.parquet"
    parquet.write_table(pa.table({"ts": [1], "x": [1.0]}), file)
    for _ in range(2):
        run("append", store, file)
    (store / "manifest-0000000002.json").unlink()
    assert run("info", store)[0] == 1
    code, text = run("recover", store)
    first, second = text.splitlines()
    assert (code, first) == (0, "version 3 is as version 1 was; lost versions: 2")
    assert second.startswith("not in it: ")
    assert run("verify", store)[0] == 0
