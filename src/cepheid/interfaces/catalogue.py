"""Data files in the package: the queries of the papers, and a page for every diagnostic code."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

_CODE = re.compile(r"[EW]\d{3}", re.IGNORECASE)


def is_code(text: str) -> bool:
    """Check whether a text looks like a diagnostic code.

    Examples
    --------
    >>> is_code("E305"), is_code("query.cq")
    (True, False)
    """
    return _CODE.fullmatch(text) is not None


def explain_code(code: str) -> str | None:
    """Look up the page of a diagnostic code; None if there is none."""
    return error_pages().get(code.upper())


def error_pages() -> dict[str, str]:
    """Split the document of diagnostics into one page for every code."""
    text = resources.files("cepheid").joinpath("data/errors.md").read_text("utf-8")
    pages = re.split(r"(?m)^### (?=[EW]\d{3})", text)[1:]
    return {page[:4]: re.split(r"(?m)^## ", page)[0].strip() for page in pages}


def bundled_sample() -> tuple[str, Path]:
    """Return a query over the bundled sample of trades, and the path of the sample."""
    folder = Path(str(resources.files("cepheid").joinpath("data")))
    return (folder / "trades.cq").read_text("utf-8"), folder / "trades.parquet"


def bundled_queries() -> list[tuple[str, str]]:
    """Read the names and texts of the bundled queries, sorted by name."""
    folder = resources.files("cepheid").joinpath("data/queries")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [
        (f.name.removesuffix(".cq"), f.read_text("utf-8")) for f in files if f.name.endswith(".cq")
    ]
