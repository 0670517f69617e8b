"""Queries of the golden files, the pages and the papers, and what slips of the hand make of them.

``judge`` runs one.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.alarm import alarm

import cepheid
from cepheid.plans.plan import SelectPlan

ROOT = Path(__file__).parents[2]
LIMIT_S = 5
"""Of processor time: a machine may have more to do."""

SIZES = (0, 1, 2, 63, 10**6, 2**63, 10**40)
TOKEN = re.compile(r"\s+|\w+|'[^']*'|.", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
ODD = [
    "9" * 30,
    *[
        "0",
        "-1",
        "1e308",
        "0.1",
        "1e-400",
        "NULL",
        "''",
        "`",
        "'",
        '"',
        ";",
        "--",
        "/*",
        "é",
        "\u202e",
        "\x00",
        "\u200d",
    ],
    *[
        "NOT",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{0}",
        "{3,1}",
        "{2,}",
        "*",
        "+",
        "?",
        ",",
        ".",
        "=",
        "<>",
        "AND",
        "OR",
        "SEQ(",
        "NEXT(",
        "FIRST(",
        "LAST(",
    ],
    *[
        "COUNT(*)",
        "AVG(",
        "LOG2(",
        "MAX(",
        "[x]",
        "BETWEEN",
        "LIKE",
        "CASE",
        "DETECTED",
        "true",
        "EVENTS",
        "us",
    ],
    *["9223372036854775807", "-9223372036854775808", "'1970-01-01'"],
    *(
        f"WITHIN {length}"
        for length in ("1 us", "0 s", "9223372036854775807 us", "4 us SLIDE 2 us")
    ),
    *("WITHIN 3 EVENTS SLIDE 2 EVENTS", "SLIDE 1 us", "LIMIT 0", f"LIMIT {10**20}", "LIMIT 3"),
    *("MIN LENGTH 0", "MIN LENGTH 5", "SEMANTICS next", "SEMANTICS contiguous", "TIES arrival"),
    *("NUMBERS exact", "EMIT EARLY", "EMIT ON EXPIRY", "GROUP-BY x", "HAVING COUNT(*) > 0"),
    *(
        "IN (1, 2)",
        "IS NULL",
        "AT LEAST 1 us",
        "AT LEAST 2 EVENTS",
        "1 / 0",
        "% 0",
        "1 us",
        "AS v",
        "ORDER BY x",
    ),
]


def corpus() -> list[str]:
    """Return all queries that are written down somewhere."""
    found: list[str] = []
    for path in sorted((ROOT / "tests/golden").rglob("*.golden")):
        text = path.read_text("utf-8")
        found += re.findall(r"(?ms)^query\n(.*?)\n(?=\n)", text)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        found += re.findall(r"(?ms)^```cepheid[\w-]*[^\n]*\n(.*?)^```$", path.read_text("utf-8"))
    found += [p.read_text("utf-8") for p in sorted((ROOT / "src/cepheid/data").rglob("*.cq"))]
    return [text for text in found if "MATCH_RECOGNIZE" not in text and len(text) < 2000]


def table(texts: list[str], rows: int = 20) -> pa.Table:
    """Return a few events that have a column for every word that the queries may name."""
    words = Counter(word for text in texts for word in WORD.findall(text))
    types = [word for word, _ in words.most_common() if word[0].isupper() and not word.isupper()]
    kinds = ["A", "B", "C", "A", "D", *types[:5]]
    columns: dict[str, Any] = {
        "ts": [n // 2 * 2 for n in range(rows)],
        "type": [kinds[n % len(kinds)] for n in range(rows)],
    }
    rng = random.Random(4)
    for word in sorted({word.lower() for word in words} - set(columns)):
        columns[word] = rng.choice(
            [
                pa.array([rng.choice([None, *range(-3, 9)]) for _ in range(rows)], pa.int64()),
                pa.array([rng.choice([None, 0.5, -2.0, float("nan"), 7.0]) for _ in range(rows)]),
                pa.array([rng.choice(["p", "q", None, "é"]) for _ in range(rows)]),
            ]
        )
    return pa.table(columns)


def mutate(text: str, rng: random.Random) -> str:
    """Return a text with one to four slips."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        tokens = TOKEN.findall(text) or [""]
        place, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(9):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, tokens[other])
            case 2:
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 3 | 4:
                tokens.insert(place, f" {rng.choice(ODD)} ")
            case 5:
                tokens[place] = rng.choice(ODD)
            case 6:
                tokens.insert(place, chr(rng.choice([rng.randrange(128), rng.randrange(0x2FFFF)])))
            case 7:
                low, high = sorted((place, other))
                count = rng.choice([1, 2, 150])
                tokens[low:high] = ["(" * count, *tokens[low:high], ")" * count]
            case _:
                numbers = [n for n, token in enumerate(tokens) if token.isdecimal()]
                if numbers:
                    tokens[rng.choice(numbers)] = str(
                        rng.choice([0, 1, 2, 63, 10**6, 2**63, 10**40])
                    )
        text = "".join(tokens)
    return text


class SlowError(Exception):
    """The limit has passed."""


def judge(text: str, events: pa.Table) -> str:
    """Run a query; return "result", its code or "slow". Whatever else is raised is a defect."""
    try:
        with alarm(LIMIT_S, SlowError, processor=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q = cepheid.query(text)
            str(q.explain())
            q.explain(format="json")
            q.format()
            streams = q.plan.select.streams if isinstance(q.plan, SelectPlan) else ()
            names = {stream.name for stream in streams}
            q.run(dict.fromkeys(names, events) if len(names) > 1 else events)
    except cepheid.CepheidError as error:
        return str(error)[6:10]
    except SlowError:
        return "slow"
    return "result"
