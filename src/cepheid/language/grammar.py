"""The text of the grammar, and the terminals that the lexer makes for it."""

from __future__ import annotations

import zlib
from importlib import resources

from cepheid.language.lexer import TERMINALS

_ANONYMOUS = frozenset(
    [
        *("LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"),
        *("COMMA", "SEMICOLON", "DOT", "QMARK", "PLUS", "STAR"),
    ]
)
"""The terminals that Lark names itself after the marks in the grammar."""


def read_grammar() -> str:
    """Return the grammar with the declaration of the terminals that the lexer makes."""
    text = resources.files("cepheid.language").joinpath("grammar.lark").read_text("utf-8")
    return f"{text}\n%declare {' '.join(sorted(TERMINALS - _ANONYMOUS))}\n"


def fingerprint(grammar: str) -> str:
    """Compute the checksum of a grammar, by which its tables are known."""
    return f"grammar {zlib.crc32(grammar.encode()):08x}"
