"""The table of what no place runs names every refusal, and each code of it refuses something."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_docs import CODES
from tests.refusals import draw_queries

PAGE = Path(__file__).parents[2] / "docs/language.md"


def refused() -> list[str]:
    """Return the codes of the table, in order."""
    rest = PAGE.read_text("utf-8").partition("## What no place runs")[2]
    rows = re.findall(r"^\| (E[^|]*) \| ([^|]+) \| ([^|]+) \|$", rest, re.MULTILINE)
    return [code.strip() for codes, _, _ in rows for code in codes.split(",")]


def test_every_code_of_what_is_not_supported_is_in_the_table_once() -> None:
    found = refused()
    assert len(found) == len(set(found))
    assert {code for code in CODES if code.startswith("E4")} <= set(found)
    assert set(found) <= CODES


def test_what_random_queries_meet_is_in_the_table() -> None:
    """Queries that the semantics define are refused for a reason that users can read."""
    found = draw_queries(150, 8)
    assert found.queries >= 100
    met = {reason.split()[0] for reason in found.counts}
    assert met <= set(refused()), found.examples
