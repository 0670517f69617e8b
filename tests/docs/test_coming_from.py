"""The page `coming-from`: what it shows of other languages becomes the query below it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.translate.judge import judge, needs_eql

import cepheid
from cepheid.language.formatter import format_text
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Settings

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
PAIR = re.compile(
    r"^```text ([\w-]+)\n(.*?)^```\n.*?^```(cepheid|sql)[^\n]*\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ENDINGS = {
    "esper": ".epl",
    "sigma": ".yml",
    "flink-sql": ".sql",
    "eql": ".eql",
    "eql-python": ".eql",
}


class Pair(NamedTuple):
    """A text of another language, and the query that the page shows below it."""

    dialect: str
    text: str
    query: str


def pairs() -> list[Any]:
    return [
        pytest.param(Pair(match[1], match[2], match[4]), id=f"{match[1]}-{number}")
        for number, match in enumerate(PAIR.finditer(PAGE.read_text("utf-8")))
    ]


def _plain(query: str) -> str:
    return " ".join(format_text(query).split())


@pytest.mark.parametrize("pair", pairs())
def test_the_other_side_becomes_the_query_below_it(pair: Pair, tmp_path: Path) -> None:
    dialect = DIALECTS[pair.dialect]
    file = tmp_path / f"rule{ENDINGS.get(pair.dialect, f'.{pair.dialect}')}"
    file.write_text(pair.text)
    rules = translate_path(file, dialect, Settings(type=dialect.type))
    rule = rules[-1]
    assert not rule.reasons, rule.reasons
    assert _plain(rule.query) == _plain(pair.query)


@needs_eql
def test_the_package_eql_gives_the_same_answers() -> None:
    text = 'process where process_name == "cmd.exe" and not user_name in ("SYSTEM", "admin")'
    written = next(p.values[0] for p in pairs() if p.values[0].text.strip() == text)
    rng = random.Random(1)
    events = [
        {
            "event_type": rng.choice(["process", "file"]),
            "timestamp": number * 10_000_000,
            "id": number,
            "process_name": rng.choice(["cmd.exe", "CMD.exe", "sh"]),
            "user_name": rng.choice(["system", "Admin", "ann"]),
        }
        for number in range(100)
    ]
    (expected,) = judge([{"query": text, "events": json.loads(json.dumps(events))}])
    table = pa.Table.from_pylist(events).rename_columns({"timestamp": "ts"})
    rows = cepheid.query(written.query, type="event_type").run(table).to_pylist()
    assert [[row["id"]] for row in rows] == expected
    assert expected
