"""Data files in the package: a page for every diagnostic code."""

from __future__ import annotations

import re

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
    # Takes longer to load than most commands need to find a mistake.
    from importlib import resources

    text = resources.files("cepheid").joinpath("data/errors.md").read_text("utf-8")
    pages = re.split(r"(?m)^### (?=[EW]\d{3})", text)[1:]
    return {page[:4]: re.split(r"(?m)^## ", page)[0].strip() for page in pages}
