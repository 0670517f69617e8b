"""Lines of JSON are read part by part as they are read whole."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cepheid.arrays import json_events
from cepheid.arrays.json_events import JsonEvents
from cepheid.arrays.json_scan import NAMES_MAX, Names, Scan
from cepheid.errors import DataError
from cepheid.events.files import read_all
from cepheid.events.time_formats import TextTimes

TIMES = TextTimes("ts")
WORDS = [
    "",
    "a",
    "b c",
    'q"uote',
    "back\\slash",
    "Ä",
    "€",
    "😀",
    "line\nend\ttab",
    "\u0001",
    "null",
]
DATES = ["2026-01-31", "2026-01-31 10:00:00", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00+0230"]
ODD_DATES = ["2026-01-31T10:00:00.5", "2026-13-31", "2026-01-31x", "20260131", "2026-01-31 10"]
NUMBERS = [0, -1, 7, 2**63 - 1, -(2**63), 1.5, -0.0, 1e30, 2.5e-7, 2**63, 12345678901234567890123]
NESTED: list[Any] = [{"x": 1}, {"x": None, "y": "z"}, {}, {"x": 2, "y": '}]"'}]
LISTS: list[Any] = [[1], [], [None, 2], [3, None]]
KINDS: list[list[Any]] = [
    WORDS, DATES, [*DATES, *ODD_DATES], NUMBERS[:5], NUMBERS, [True, False], NESTED, LISTS,
    [*WORDS, *NUMBERS, True], [*DATES, 5], [1, True], [*NESTED, "x", 1.0], [None],
]  # fmt: skip


def _lines(rng: random.Random) -> list[str]:
    """Write lines whose fields have values of one kind, of several, and of others later on."""
    fields = {f"f{n}": rng.choice(KINDS) for n in range(rng.randint(1, 5))}
    later = {name: rng.choice(KINDS) if rng.random() < 0.1 else of for name, of in fields.items()}
    lines = []
    count = rng.randint(1, 40)
    for place in range(count):
        of = fields if place < count * 0.8 else later
        names = [name for name in of if rng.random() < 0.7]
        rng.shuffle(names)
        row = {"ts": f"2026-01-31T10:{place:02d}:00Z"}
        row |= {name: rng.choice([*of[name], None]) for name in names}
        spaces = rng.choice([(",", ":"), (", ", ": "), (" ,\t", " :  ")])
        line = json.dumps(row, ensure_ascii=rng.random() < 0.5, separators=spaces)
        lines.append(rng.choice(["", " ", "\r\n", "\n"]) + line + rng.choice(["", " \r", "\t"]))
    return lines


def _whole(file: Path) -> pa.Table | None:
    try:
        return pa.concat_tables(read_all([file], None, TIMES)).combine_chunks()
    except DataError:
        return None


def _in_parts(file: Path) -> pa.Table | None:
    try:
        events = JsonEvents([file], TIMES)
        parts = [part.table(events.schema.names) for part in events.parts()]
    except DataError:
        return None
    assert not events.lines_left_out
    return pa.concat_tables([events.schema.empty_table(), *parts]).combine_chunks()


def _events(file: Path, text: bytes, part: int, monkeypatch: pytest.MonkeyPatch) -> JsonEvents:
    file.write_bytes(text)
    monkeypatch.setattr(json_events, "PART_BYTES", part)
    return JsonEvents([file], TIMES)


def _rows(events: JsonEvents) -> list[Any]:
    return [row for part in events.parts() for row in part.table(events.schema.names).to_pylist()]


GOOD = [f'{{"ts": "2026-01-31T10:00:0{n}Z", "n": {n}}}'.encode() for n in range(10)]
BAD = [
    b"null", b"[1]", b"1", b"{", b'{"n": 1', b'{"n": 01}', b'{"n": 1.}', b'{"n": NaN}', b"{'n': 1}",
    b'{"n": 1e400}', b'{"n": "\\ud83d"}', b'{"n": "\xff"}', b'{"n": "\x01"}', b'{"n": truth}',
    b'{"n": 1}, ', b'{"n": 1}{"n": 2}', b"\x00", b'{"n": [1}', b'{"n" 1}', b'{"n": "\\x"}',
    b'{n: 1}', b'{"a\xff": 1}', b'{"n": -}', b'{"n": 1,}', b'{"a": [1,,2]}', b'{"a": [truly]}',
    b'{"a": {"b" 1}}', b'{"a": {"b": 01}}', b'{"a": [{]}}', b'{"a": [1,]}', b'{"a": {1: 2}}',
    b'{"a": [[1, 2}, 3]}', b'{"a": {"b":}}', b'{"a": {,}}', b'{"a": [1 2]}', b'{"a": [1e400]}',
    b'{"a\xff": 1, "b": 2, "c": 3}',
    b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("part", [64, 1 << 20])
def test_a_bad_line_is_left_out_and_counted(
    bad: bytes, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*GOOD[:4], bad, *GOOD[4:], bad]
    events = _events(tmp_path / "events.jsonl", b"\n".join(lines), part, monkeypatch)
    assert [row["n"] for row in _rows(events)] == [*range(10)]
    assert events.schema.field("n").type == pa.int64()
    (told,) = events.notices()
    shown = bad.decode(errors="replace").strip()
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    assert told == f"2 lines are no objects of JSON and left out, the first is `{shown}`"


def test_unusual_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        b'\xef\xbb\xbf{"ts": "2026-01-31T10:00:00Z", "n": 1}', b"", b"  \t\r",
        b'{"\\u006e": 2, "ts": "2026-01-31T10:00:00Z"}',
        b'{"n": 1, "n": 3, "ts": "2026-01-31T10:00:00Z"}',
        b'{"n": 4, "ts": "\\u0032026-01-31T10:00:00Z", "face": "\\ud83d\\ude00"}\r',
    ]  # fmt: skip
    for part in (8, 100, 1 << 20):
        events = _events(tmp_path / "events.jsonl", b"\n".join(lines), part, monkeypatch)
        rows = _rows(events)
        assert [row["n"] for row in rows] == [1, 2, 3, 4]
        assert rows[-1]["face"] == "😀"
        assert not events.notices()


def test_of_names_that_an_object_repeats_the_last_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        b'{"ts": "2026-01-31T10:00:00Z", "a": {"x": 1, "y": [{"z": 1}]}}',
        b'{"ts": "2026-01-31T10:00:01Z", "a": {"x": 1, "x": 2, "y": [{"z": 1, "z": 3}]}}',
    ]
    for part in (64, 1 << 20):
        events = _events(tmp_path / "events.jsonl", b"\n".join(lines), part, monkeypatch)
        rows = _rows(events)
        assert [row["a"] for row in rows] == [
            {"x": 1, "y": [{"z": 1}]},
            {"x": 2, "y": [{"z": 3}]},
        ]
        assert not events.notices()


def test_a_text_that_looks_like_a_list_is_another_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        b'{"ts": "2026-01-31T10:00:00Z", "a": [1, 2]}',
        b'{"ts": "2026-01-31T10:00:01Z", "a": "[1, 2]"}',
        b'{"ts": "2026-01-31T10:00:02Z", "a": [1, 2]}',
    ]
    events = _events(tmp_path / "events.jsonl", b"\n".join([*lines, b""]), 1 << 20, monkeypatch)
    part = next(events.parts())
    found = part.distinct("a", None)
    assert found is not None
    values = found.values.to_pylist()
    assert [values[code] for code in found.codes] == ["[1,2]", "[1, 2]", "[1,2]"]
    assert part.arrow("a").to_pylist() == ["[1,2]", "[1, 2]", "[1,2]"]


def test_events_without_time_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [b'{"n": 20}', b'{"ts": null, "n": 21}', b'{"ts": "soon", "n": 22}']
    lines = [*GOOD[:3], *odd, *GOOD[3:], odd[2]]
    for part in (40, 100, 1 << 20):
        events = _events(tmp_path / "events.jsonl", b"\n".join(lines), part, monkeypatch)
        assert [row["n"] for row in _rows(events)] == [*range(10)]
        assert events.notices() == ["4 events have no time in `ts` that can be read: left out"]
    nothing = _events(tmp_path / "events.jsonl", b"\n".join(odd[2:]), 100, monkeypatch)
    with pytest.raises(DataError, match="soon"):
        _rows(nothing)


def test_files_are_read_together(tmp_path: Path) -> None:
    """A field that is a number in one file is a text if it is one in another."""
    one, two, empty = (tmp_path / f"{name}.jsonl" for name in ("1", "2", "3"))
    one.write_bytes(b'{"ts": "2026-01-31", "n": 1.50, "a": [1]}')
    two.write_bytes(gzip.compress(b'{"ts": "2026-02-01", "n": "x", "b": {"c": null}}\n'))
    two = two.rename(tmp_path / "2.jsonl.gz")
    empty.write_bytes(b"")
    events = JsonEvents([one, two, empty], TIMES)
    assert [(row["n"], row["a"], row["b"]) for row in _rows(events)] == [
        ("1.5", [1], None),
        ("x", None, {"c": None}),
    ]
    assert JsonEvents([empty], TIMES).schema.names == ["ts"]


def test_lines_without_an_object_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('[\n{"n": 1,\n"m": 2}\n]\n')
    with pytest.raises(DataError, match="no line is an object of JSON"):
        JsonEvents([file], TIMES)


def test_names_have_a_limit() -> None:
    names = Names()
    line = "{" + ",".join(f'"{n}":1' for n in range(300)) + "}"
    scan = Scan(np.frombuffer(line.encode(), np.uint8), names)
    assert len(names) == 300
    assert [scan.column(str(n), pa.int64()).to_pylist() for n in (0, 255, 299)] == [[1]] * 3
    for number in range(NAMES_MAX - len(names)):
        names.add(f"x{number}".encode())
    assert names.number("x999") == 1299
    with pytest.raises(DataError, match="more than 65,536 names"):
        names.add(b"one more")


def _types(table: pa.Table) -> dict[str, pa.DataType]:
    """Return types; Arrow knows nothing of what is in empty lists, or calls it text."""
    empty, texts = pa.list_(pa.null()), pa.list_(pa.string())
    return {field.name: texts if field.type == empty else field.type for field in table.schema}


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_what_the_whole_is(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    lines = _lines(rng)
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(lines) + rng.choice(["", "\n", "\n\n"]), "utf-8")
    whole = _whole(file)
    monkeypatch.setattr(json_events, "PART_BYTES", rng.choice([64, 300, 1 << 20]))
    found = _in_parts(file)
    if whole is None:
        assert found is None, lines
        return
    assert found is not None, lines
    assert _types(found) == _types(whole), lines
    assert str(found.select(whole.column_names).to_pylist()) == str(whole.to_pylist()), lines
