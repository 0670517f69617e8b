"""Readers of the site find every page; `make site` itself checks links and anchors."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_guides import load

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = (ROOT / "site/mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r": ([\w/-]+\.md)$", config, re.MULTILINE))
    docs = ROOT / "docs"
    found = [*docs.glob("*.md"), *docs.glob("guides/*.md")]
    pages = {str(path.relative_to(docs)) for path in found}
    made = {"syntax.md", "changelog.md", "contributing.md", "security.md", "licences.md"}
    assert listed == pages | made


def test_queries_and_sessions_of_python_have_their_colours() -> None:
    highlight = load("highlight")
    text = "RETURN COUNT(*) PATTERN SEQ(A a+, B) WHERE a.x = 'it''s' WITHIN 5 s -- all"
    found = [(str(kind), value) for kind, value in highlight.CepheidLexer().get_tokens(text)]
    assert {
        ("Token.Keyword", "PATTERN"),
        ("Token.Name.Function", "COUNT"),
        ("Token.Literal.String", "'it''s'"),
        ("Token.Name.Constant", "s"),
        ("Token.Comment", "-- all"),
        ("Token.Text", "a"),
    } <= set(found)
    page = "```cepheid ts:int\nPATTERN A\n```\n\n```python\n>>> 1\n1\n```\n"
    assert highlight.fences(page) == "```cepheid\nPATTERN A\n```\n\n```pycon\n>>> 1\n1\n```\n"
