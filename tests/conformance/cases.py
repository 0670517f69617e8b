"""Conformance cases as data, and how one is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cepheid

FOLDER = Path(__file__).parent / "cases"
SUITES = sorted(path.stem for path in FOLDER.glob("*match_recognize.json"))
TYPES = {
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "boolean": pa.bool_(),
}
ERRORS = {"skip_to_first_row": "E610", "skip_target_absent": "E611"}

Case = dict[str, Any]


def read_cases(suite: str, families: tuple[str, ...] = ("match_recognize",)) -> list[Case]:
    """Return the cases of a file that are of some families."""
    cases: list[Case] = json.loads((FOLDER / f"{suite}.json").read_text("utf-8"))
    return [case for case in cases if case["family"] in families]


def table_of(case: Case) -> pa.Table:
    """Return the input of a case."""
    columns = case["input"]["columns"]
    rows = case["input"]["rows"]
    fields = [pa.field(column["name"], TYPES[column["type"]]) for column in columns]
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def text_of(case: Case) -> str:
    """Return the whole query of a case; names are quoted, since some are words of SQL."""
    items = [f"`{item['expr']}` AS `{item['name']}`" for item in case["query"]["select"]]
    return f"SELECT {', '.join(items)} FROM input {case['query']['sql']}"


def check_result(case: Case, rows: list[dict[str, Any]]) -> None:
    """Compare rows with the expected ones, in order if the case says so."""
    expected = case["expected"]
    names = expected["columns"]
    found = [[row[name] for name in names] for row in rows]
    if expected["row_order"] == "unordered":
        assert sorted(map(repr, found)) == sorted(map(repr, expected["rows"]))
    else:
        assert found == expected["rows"]


def run_case(case: Case) -> None:
    """Run a case of MATCH_RECOGNIZE in process and compare."""
    expect_result(case, text_of(case))


def expect_result(case: Case, text: str) -> None:
    """Run a text in process and compare what it gives with a case."""
    tables = {"input": table_of(case)}
    code = ERRORS.get(case["expected"].get("error", ""))
    if code is None:
        check_result(case, cepheid.sql(text, tables=tables).to_pylist())
        return
    with pytest.raises(cepheid.DataError) as caught:
        cepheid.sql(text, tables=tables)
    assert [d.code for d in caught.value.diagnostics] == [code]
