"""Make a notebook of a guide: its text as Markdown cells, its examples as code cells with outputs.

A page is the only source. Tests run its cells in their order and compare what they show.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n!\[[^\]]*\]\((?P<picture>[^)]+\.svg)\)\n)?",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?!https?:)[^)]+\)")
PROMPTS = (">>> ", "... ", ">>>", "...")


def cells(page: Path) -> list[dict[str, Any]]:
    """Cut a page into cells; an example's output, and the picture after it, belong to its cell."""
    text = page.read_text("utf-8")
    found: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(text):
        found += _prose(text[end : block.start()])
        found.append(_code(block["code"], block["picture"], page, len(found)))
        end = block.end()
    return [*found, *_prose(text[end:])]


def notebook(page: Path) -> str:
    """Write the notebook of a page."""
    made = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells(page))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _prose(text: str) -> list[dict[str, Any]]:
    plain = LINK.sub(r"\g<text>", text.strip())  # Other pages do not lie beside a notebook.
    if not plain:
        return []
    return [{"cell_type": "markdown", "metadata": {}, "source": plain}]


def _code(block: str, picture: str | None, page: Path, number: int) -> dict[str, Any]:
    source, shown = [], []
    for line in block.rstrip("\n").split("\n"):
        prompt = next((one for one in PROMPTS if line.startswith(one)), None)
        (shown if prompt is None else source).append(line.removeprefix(prompt or ""))
    data: dict[str, Any] = {"text/plain": "\n".join(shown).strip("\n")}
    if picture is not None:
        drawn = page.parent / picture
        data["image/svg+xml"] = drawn.read_text("utf-8") if drawn.exists() else ""
    result = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
    return {
        "cell_type": "code",
        "execution_count": number,
        "metadata": {"picture": picture} if picture else {},
        "source": "\n".join(source),
        "outputs": [{**result, "data": data}] if data["text/plain"] else [],
    }


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    folder = root / "build/notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for guide in sorted((root / "docs/guides").glob("*.md")):
        (folder / f"{guide.stem}.ipynb").write_text(notebook(guide), "utf-8")
