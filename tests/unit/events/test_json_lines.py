"""A file of lines of JSON that is read in parts is the table that it is when read in one piece."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pytest

from cepheid.errors import DataError
from cepheid.events import json_lines
from cepheid.events.files import read_all
from cepheid.interfaces.topic_records import read_lines

VALUES: list[list[Any]] = [
    [1, 2, None],
    [1, 2.5, None],
    [True, None],
    ["a", "ä\n", None],
    ["2026-01-01", "2026-01-01 10:00:00", "2026-01-01T10:00:00.5Z"],
    ["2026-01-01", "2026-01-01T00:00:00", "soon"],
    [1, "x"],
    [1, True],
    [None],
    [{"x": 1}, {"x": 2, "y": "b"}, {"y": None}, None],
    [[1], [], [None], None],
    [["a"], [], None],
    [[None, 1], [2], [None, None]],
    [[None, "a"], ["b"], []],
    [{"x": [None, 1]}, {"x": [2]}],
]


def _lines(rng: random.Random) -> list[str]:
    names = rng.sample("abcdef", rng.randint(1, 4))
    kinds = {name: rng.choice(VALUES) for name in names}
    rows = [
        {name: rng.choice(kinds[name]) for name in names if rng.random() < 0.8}
        for _ in range(rng.randint(1, 30))
    ]
    return [json.dumps(row) for row in rows]


def _read(file: Path) -> pa.Table | str:
    try:
        return pa.concat_tables(read_all([file]), promote_options="permissive").combine_chunks()
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(150))
def test_parts_make_the_whole(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    file = tmp_path / "events.jsonl"
    end = rng.choice(["", "\n", "\n\n", "\n{"])
    file.write_text("\n".join(_lines(rng)) + end, encoding="utf-8")
    whole = _read(file)
    monkeypatch.setattr(json_lines, "PART_BYTES", rng.choice([16, 64, 256]))
    in_parts = _read(file)
    if isinstance(whole, str):
        assert in_parts == whole
    else:
        assert isinstance(in_parts, pa.Table)
        assert in_parts.schema == whole.schema
        assert in_parts.equals(whole)


def test_a_line_that_is_longer_than_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "PART_BYTES", 8)
    file = tmp_path / "events.jsonl"
    lines = [json.dumps({"text": "long " * n}) for n in (1, 50, 2)]
    file.write_text("\n".join(lines), encoding="utf-8")
    table = json_lines._read_parts(file, pa.json.ReadOptions(), pa.json.ParseOptions())
    assert table is not None
    assert [len(str(text)) for text in table["text"].to_pylist()] == [5, 250, 10]


@pytest.mark.parametrize("part", [1 << 20, 32])
@pytest.mark.parametrize("kind", ["numbers", "texts", "nothing", "inside"])
def test_a_list_may_begin_with_null(
    kind: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: dict[str, list[Any]] = {
        "numbers": [[None, 2], [1], [], [None], [3, None]],
        "texts": [[None, "a"], ["b", None], [None, None]],
        "nothing": [[None, None], [], [None]],
        "inside": [{"x": [None, 1]}, {"x": [2]}],
    }
    values = cases[kind]
    monkeypatch.setattr(json_lines, "PART_BYTES", part)
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(json.dumps({"tags": one}) for one in values), encoding="utf-8")
    found = _read(file)
    assert isinstance(found, pa.Table)
    assert found["tags"].to_pylist() == values
    lines = [json.dumps({"tags": one}).encode() for one in values]
    assert read_lines(lines)["tags"].to_pylist() == values


@pytest.mark.parametrize("text", ["null", ' \n null\n{"a": 1}', "null\nnull"])
@pytest.mark.parametrize("part", [1 << 20, 4])
def test_a_file_that_begins_with_null_is_refused(
    text: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow would end the process."""
    monkeypatch.setattr(json_lines, "PART_BYTES", part)
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    assert "no object of JSON" in str(_read(file))
