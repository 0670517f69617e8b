"""What ships beside the code: the queries of the papers, and a page for every diagnostic code."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

_CODE = re.compile(r"[EW]\d{3}", re.IGNORECASE)


def is_code(text: str) -> bool:
    """Return whether a text looks like a diagnostic code.

    Examples
    --------
    >>> is_code("E305"), is_code("query.cq")
    (True, False)
    """
    return _CODE.fullmatch(text) is not None


def explain_code(code: str) -> str | None:
    """Return the page of a diagnostic code, or None if there is none."""
    return error_pages().get(code.upper())


def error_pages() -> dict[str, str]:
    """Return the page of every diagnostic code, cut from the one document that holds them."""
    text = resources.files("cepheid").joinpath("data/errors.md").read_text("utf-8")
    pages = re.split(r"(?m)^### (?=[EW]\d{3})", text)[1:]
    return {page[:4]: re.split(r"(?m)^## ", page)[0].strip() for page in pages}


def bundled_sample() -> tuple[str, Path]:
    """Return a query over the bundled sample of trades, and where the sample is."""
    folder = Path(str(resources.files("cepheid").joinpath("data")))
    return (folder / "trades.cq").read_text("utf-8"), folder / "trades.parquet"


def bundled_queries() -> list[tuple[str, str]]:
    """Return name and text of the bundled queries, in the order of their names."""
    folder = resources.files("cepheid").joinpath("data/queries")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [
        (f.name.removesuffix(".cq"), f.read_text("utf-8")) for f in files if f.name.endswith(".cq")
    ]
