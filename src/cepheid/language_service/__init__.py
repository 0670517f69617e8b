"""Answers to an editor about a query text while somebody types: text in, plain values out.

``diagnostics`` finds mistakes with edits that repair them, ``complete`` lists what may come next,
``hover`` says what a word means, ``format_text`` lays a query out, and ``symbols`` outlines it. All
take any text, also half a query, never raise because of it, and read no files. Offsets count
characters of the Python text; ``places.to_utf16`` converts them for editors that count as
JavaScript does.
"""

from __future__ import annotations

from cepheid.language_service.answers import (
    Completion,
    CompletionKind,
    Finding,
    Fix,
    Hover,
    Severity,
    Symbol,
    SymbolKind,
    TextEdit,
)
from cepheid.language_service.complete import complete
from cepheid.language_service.diagnose import diagnostics
from cepheid.language_service.hover import hover
from cepheid.language_service.layout import format_text
from cepheid.language_service.symbols import symbols

__all__ = [
    "Completion",
    "CompletionKind",
    "Finding",
    "Fix",
    "Hover",
    "Severity",
    "Symbol",
    "SymbolKind",
    "TextEdit",
    "complete",
    "diagnostics",
    "format_text",
    "hover",
    "symbols",
]
