"""Readers of the site find every page; `make site` itself checks links and anchors."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = (ROOT / "site/mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r": ([\w/-]+\.md)$", config, re.MULTILINE))
    docs = ROOT / "docs"
    found = [*docs.glob("*.md"), *docs.glob("guides/*.md")]
    pages = {str(path.relative_to(docs)) for path in found}
    made = {"syntax.md", "changelog.md", "contributing.md", "security.md", "licences.md"}
    assert listed == pages | made
