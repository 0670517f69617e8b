"""``cepheid detect`` finds in parts of lines of JSON what it finds in the whole."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from cepheid.arrays import json_events
from cepheid.events.files import read_all
from cepheid.events.time_formats import TextTimes
from cepheid.interfaces.cli import app

FILTERS = {
    "whole": "SELECT * FROM log WHERE LOWER(name) LIKE '%shell.exe' AND n > 2",
    "part": "SELECT ts, name, n + 1 AS m FROM log WHERE name LIKE 'Power%'",
    "late": "SELECT * FROM log WHERE late = 'there'",
    "mixed": "SELECT * FROM log WHERE mixed = '7' OR mixed LIKE 'x%'",
    "words": "SELECT * FROM log WHERE name LIKE '%hell%' OR LOWER(other) LIKE '%hell%'",
    "absent": "SELECT * FROM log WHERE nowhere IS NULL AND n = 1",
    "nested": "SELECT * FROM log WHERE at.x = 2 AND at.y LIKE '%word%'",
    "equal": "SELECT * FROM log WHERE type = 'b' AND name IN ('sh.exe', 'PowerShell.exe')",
    "seldom": "-- @deduplicate: name within 10 s\nSELECT * FROM log WHERE n < 5",
    "limited": "-- @rate_limit: 2 per 20 s\nSELECT * FROM log WHERE n >= 5",
}
OTHERS = {"pairs": "PATTERN SEQ(a A, b B) WHERE A.n = B.n WITHIN 5 seconds"}
NAMES = ["sh.exe", "PowerShell.exe", "powershell.exe.bak", "Power", None, "xshell.exe"]


def _events(rng: random.Random, count: int) -> list[dict[str, Any]]:
    rows = []
    for place in range(count):
        row: dict[str, Any] = {
            "ts": f"2026-01-31T10:{place // 60:02d}:{place % 60:02d}Z",
            "type": rng.choice("ab"),
            "n": rng.randint(0, 9),
            "name": rng.choice(NAMES),
        }
        if rng.random() < 0.3:
            row["other"] = rng.choice(["Hello", "hell", "HE", "shell"])
            row["at"] = rng.choice([None, {"x": 2}, {"x": 2, "y": "a word"}, {"y": "words"}])
        if place > count * 0.8:
            row |= {"late": rng.choice(["there", "not"]), "mixed": rng.choice(["x", "7", 7])}
        elif rng.random() < 0.5:
            row["mixed"] = rng.choice([7, 8.5])
        rows.append(row)
    return rows


def _detect(rules: Path, *inputs: Path) -> tuple[list[str], str]:
    alerts = rules / "alerts.jsonl"
    words = [word for one in inputs for word in ("--input", str(one))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Sorting is told.
        done = CliRunner().invoke(app.typer(), ["detect", str(rules), *words, "-o", str(alerts)])
    assert done.exit_code == 0, (done.output, done.exception)
    return sorted(alerts.read_text().splitlines()), done.output


@pytest.mark.parametrize("others", [{}, OTHERS])
@pytest.mark.parametrize("order", ["in order", "in any order"])
def test_parts_give_the_alerts_of_the_whole(
    others: dict[str, str], order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(order)
    rules = tmp_path / "rules"
    rules.mkdir()
    for name, text in (FILTERS | others).items():
        (rules / f"{name}.cq").write_text(text)
    rows = _events(rng, 200)
    if order == "in any order":
        rng.shuffle(rows)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    file, whole = tmp_path / "events.jsonl", tmp_path / "events.parquet"
    file.write_text("\n".join(lines), "utf-8")
    parquet.write_table(pa.concat_tables(read_all([file], None, TextTimes("ts"))), whole)
    expected, _ = _detect(rules, whole)
    assert {json.loads(line)["rule"]["name"] for line in expected} >= {*FILTERS}
    for part in (1 << 20, 3_000, 200):
        monkeypatch.setattr(json_events, "PART_BYTES", part)
        found, told = _detect(rules, file)
        assert found == expected
        assert "200 events read" in told
        assert "which are NULL: nowhere\n" in told
    halves = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for place, half in enumerate(halves):
        half.write_text("\n".join([*lines[place * 100 : place * 100 + 100], "[", ""]), "utf-8")
    found, told = _detect(rules, *halves)
    assert found == expected
    assert "notice: 2 lines are no objects of JSON and left out, the first is `[`\n" in told


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_files_without_events_give_no_alerts(text: str, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "one.cq").write_text("SELECT * FROM log WHERE n = 1")
    (tmp_path / "events.jsonl").write_text(text)
    found, told = _detect(tmp_path / "rules", tmp_path / "events.jsonl")
    assert not found
    assert "0 events read" in told
