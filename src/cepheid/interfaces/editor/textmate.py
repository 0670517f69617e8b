"""Write the TextMate grammar, by which editors colour queries, from the words of the language.

``python -m cepheid.interfaces.editor.textmate`` writes it to ``editors/``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from cepheid.events.temporal import UNIT_MICROSECONDS
from cepheid.expressions.cast_types import TARGETS
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.expressions.functions import ALIASES, FUNCTIONS
from cepheid.language_service import meanings

_ROW_PATTERN = (
    "ONE ROW PER MATCH",
    "ALL ROWS PER MATCH",
    "RUNNING",
    "FINAL",
    "PERMUTE",
    "TRY_CAST",
)
_CONSTANTS = ("TRUE", "FALSE", "NULL")
_LOGIC = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN")
FILES = ("cepheid.tmLanguage.json", "vscode/cepheid.tmLanguage.json")
"""The places of the grammar below ``editors/``; an extension has its own copy."""


def grammar() -> dict[str, Any]:
    """Build the grammar."""
    words = {*KEYWORDS, *INNER_KEYWORDS, *meanings.KEYWORDS, *meanings.ROW_PATTERN_KEYWORDS}
    special = {*_CONSTANTS, *_LOGIC}
    calls = {*FUNCTIONS, *ALIASES, *meanings.AGGREGATES, *meanings.SELECT_AGGREGATES}
    calls |= {*meanings.ANCHORS, *meanings.SURVEYS, "CLASSIFIER", "MATCH_NUMBER"}
    patterns = [
        _match("comment.line.cepheid", r"(?:--|//|#).*$"),
        {"name": "comment.block.cepheid", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.single.cepheid", "begin": "'", "end": "'(?!')",
         "patterns": [_match("constant.character.escape.cepheid", "''")]},
        {"name": "string.quoted.double.cepheid", "begin": '"', "end": '"(?!")',
         "patterns": [_match("constant.character.escape.cepheid", '""')]},
        _match("variable.other.quoted.cepheid", "`(?:[^`\\n]|``)+`"),
        _match("support.function.cepheid", _any_of(calls) + r"(?=\s*\()"),
        _match("variable.other.property.cepheid", r"(?<=\.)[^\W\d]\w*"),
        _match("constant.language.cepheid", _any_of(_CONSTANTS)),
        _match("keyword.operator.word.cepheid", _any_of(_LOGIC)),
        _match("support.constant.mode.cepheid", _any_of(m for m in meanings.MODES if "-" in m)),
        _match("keyword.other.relation.cepheid", _any_of(meanings.RELATIONS)),
        _match("keyword.control.cepheid", _any_of({*words, *_ROW_PATTERN} - special)),
        _match("storage.type.cepheid", _any_of(TARGETS)),
        _match("constant.numeric.cepheid", r"\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b"),
        _match("constant.other.unit.cepheid", _any_of(UNIT_MICROSECONDS, r"(?:(?<=\d)|(?<=\d\s))")),
        _match("keyword.operator.cepheid", r"<>|<=|>=|==|!=|[-+*/%=<>?!|&]"),
    ]  # fmt: skip
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Cepheid",
        "scopeName": "source.cepheid",
        "fileTypes": ["cq"],
        "patterns": patterns,
    }


def write_grammar(folder: Path) -> None:
    """Write the grammar to its places below a folder."""
    data = msgspec.json.format(msgspec.json.encode(grammar()), indent=2) + b"\n"
    for name in FILES:
        (folder / name).write_bytes(data)


def _match(scope: str, pattern: str) -> dict[str, Any]:
    return {"name": scope, "match": pattern}


def _any_of(words: Iterable[str], before: str = r"\b") -> str:
    """Match one of some words in any case, longer ones first; `GROUP-BY` is `GROUP BY`, too."""
    ordered = sorted({word.replace("_BY", " BY") for word in words}, key=lambda w: (-len(w), w))
    spaced = [_spaced(word) for word in ordered]
    return rf"(?i){before}(?:{'|'.join(spaced)})\b"


def _spaced(word: str) -> str:
    if word in ("MIN_LENGTH", "AT_LEAST", "AT_MOST", "AFTER_MATCH_SKIP"):
        word = word.replace("_", " ")
    return word.replace(" ", r"\s+").replace(r"GROUP\s+BY", r"GROUP(?:\s*-\s*|\s+)BY")


if __name__ == "__main__":
    write_grammar(Path(__file__).parents[4] / "editors")
