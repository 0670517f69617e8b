"""Pages that are made while the site is built, and links that leave the folder of the docs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import highlight
import notebooks
import syntax

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
    "requirements/licences.md": "licences.md",
}
"""Pages of the project that stand beside the docs, and what they are called on the site."""
LINK = re.compile(r"\]\((?:\.\./)+(?P<path>[\w./-]+?)(?P<place>#[\w-]*)?\)")
ROLE = re.compile(r":(?:func|meth|class):(?=<)")
INSIDE = re.compile(r"\]\(docs/(?P<path>[\w./-]+)")


def on_config(config: Any) -> Any:
    """Append the decisions, whose pages come and go, to what readers can open; colour queries."""
    highlight.register()
    found = sorted((ROOT / "docs/decisions").glob("*.md"))
    config.nav.append({"Decisions": [f"decisions/{path.name}" for path in found]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside of the docs, and the syntax that is drawn from the grammar."""
    for source, name in OUTSIDE.items():
        if name != "index.md":
            text = INSIDE.sub(r"](\g<path>", (ROOT / source).read_text("utf-8"))
            text = re.sub(r"\]\((LICENSE|CITATION\.cff)\)", "]", text)
            files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "syntax.md", content=syntax.page()))
    for guide in sorted((ROOT / "docs/guides").glob("*.md")):
        name = f"guides/{guide.stem}.ipynb"
        files.append(File.generated(config, name, content=notebooks.notebook(guide)))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Leave out the roles of names in docstrings, which Markdown does not know."""
    return ROLE.sub("", html) if page.file.src_uri == "api.md" else html


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to pages of the project lead to their places on the site."""
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri.startswith("guides/"):
        name = Path(page.file.src_uri).with_suffix(".ipynb").name
        title, _, rest = markdown.partition("\n")
        markdown = f"{title}\n\n[This page as a notebook]({name})\n{rest}"

    def place(match: re.Match[str]) -> str:
        name = OUTSIDE.get(match["path"])
        return f"]({up}{name}{match['place'] or ''})" if name else match[0]

    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]
    return highlight.fences(LINK.sub(place, markdown))
