"""Golden files with ``device="gpu"`` give the same rows, or a reason that the docs list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.comparison import numbered, plain_rows, same_rows
from tests.golden.conftest import (
    INPUTS,
    content_lines,
    in_microseconds,
    split_sections,
    type_column,
)

import cepheid
from cepheid.errors import CepheidError, UnsupportedError
from cepheid.testing.harness import stream

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
REFUSED = "this query does not run on a GPU: "
AFTER = "## Tests"
RAN_MIN = 80
"""Answers of golden files that came from the device when this test was written."""

pytestmark = pytest.mark.timeout(600)


def cases() -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Return the queries of golden files that have rows, with their inputs."""
    for path in sorted(GOLDEN.rglob("*.golden")):
        inputs: dict[str, str] = {}
        for section in split_sections(path.read_text(encoding="utf-8"))[1]:
            if section.name in INPUTS:
                inputs[section.name] = section.body
            elif section.name in ("expect", "matches") and {"query", "stream"} <= inputs.keys():
                yield path, inputs["query"], dict(inputs)


def listed() -> set[str]:
    """Return the reasons of the documentation for patterns."""
    text = (ROOT / "docs/accelerator.md").read_text(encoding="utf-8")
    table = text.partition("## What stays on the CPU")[2].partition(AFTER)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))


@pytest.mark.filterwarnings("ignore")
def test_golden_files_run_on_the_device_or_say_why_not() -> None:
    reasons, ran = set(), 0
    for path, text, inputs in cases():
        schema = dict(line.split() for line in content_lines(inputs.get("schema", ""))) or None
        try:
            query = cepheid.query(text, schema=schema, type=type_column(inputs["stream"]))
        except CepheidError:
            continue
        table = numbered(stream(" ".join(content_lines(inputs["stream"]))))
        try:
            found = query.run(table, device="gpu")
        except UnsupportedError as error:
            told = error.diagnostics[0]
            assert told.code == "E552", path
            reasons.add(told.message.removeprefix(REFUSED))
            continue
        ran += 1
        expected, actual = (
            plain_rows(in_microseconds(rows).to_pylist()) for rows in (query.run(table), found)
        )
        assert same_rows(actual, expected), path
    assert reasons == listed()
    assert ran >= RAN_MIN
