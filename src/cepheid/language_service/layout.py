"""Lay out a query text."""

from __future__ import annotations

from cepheid.errors import CepheidError
from cepheid.language import formatter


def format_text(text: str) -> str | None:
    r"""Format a query in canonical layout, comments included; None if the text cannot be read.

    Examples
    --------
    >>> format_text("pattern A within 5 s")
    'PATTERN A\nWITHIN 5 seconds'
    >>> format_text("PATTERN (")
    """
    try:
        return formatter.format_text(text)
    except CepheidError:
        return None
