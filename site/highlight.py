"""Colour queries on the site: the grammar of editors in, a lexer of Pygments out.

`editors/cepheid.tmLanguage.json` is the one list of words; a test compares it with the language.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.lexers import _mapping
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, _TokenType

__all__ = ["CepheidLexer"]  # Pygments takes all of these for lexers.

GRAMMAR = Path(__file__).parents[1] / "editors/cepheid.tmLanguage.json"
TOKENS: dict[str, _TokenType] = {
    "comment": Comment,
    "string": String,
    "variable.other.quoted": Name.Variable,
    "variable.other.property": Name,
    "support.function": Name.Function,
    "support.constant": Name.Constant,
    "constant.language": Keyword.Constant,
    "constant.numeric": Number,
    "constant.other": Name.Constant,
    "keyword.operator.word": Keyword,
    "keyword.operator": Operator,
    "keyword": Keyword,
    "storage": Keyword.Type,
}
"""Beginnings of TextMate's names; the longest one counts."""

FENCE = re.compile(r"^```(?P<name>[\w-]+)(?P<words>[^\n]*)\n(?=(?P<prompt>>>> )?)", re.MULTILINE)
SAME_COLOURS = {"cepheid-error": "cepheid", "cepheid-warning": "cepheid", "sql-error": "sql"}


def fences(markdown: str) -> str:
    """Name the lexer of each block: sessions of Python have prompts, and words are for tests."""

    def named(found: re.Match[str]) -> str:
        name = SAME_COLOURS.get(found["name"], found["name"])
        return f"```{'pycon' if name == 'python' and found['prompt'] else name}\n"

    return FENCE.sub(named, markdown)


def _token(name: str) -> _TokenType:
    return TOKENS[max((start for start in TOKENS if name.startswith(start)), key=len)]


def _pattern(rule: dict[str, Any]) -> str:
    if "match" in rule:
        return str(rule["match"])
    escapes = "".join(f"{inner['match']}|" for inner in rule.get("patterns", ()))
    return rf"{rule['begin']}(?:{escapes}(?!{rule['end']})[\s\S])*{rule['end']}"


def _rules() -> list[tuple[str, _TokenType]]:
    rules = json.loads(GRAMMAR.read_text("utf-8"))["patterns"]
    return [*((_pattern(rule), _token(rule["name"])) for rule in rules), (r"\w+|\s+|.", Text)]


class CepheidLexer(RegexLexer):
    """Queries of Cepheid, by the grammar that editors use."""

    name = "Cepheid"
    aliases: ClassVar[list[str]] = ["cepheid"]
    filenames: ClassVar[list[str]] = ["*.cq"]
    flags = re.MULTILINE
    tokens: ClassVar[dict[str, list[Any]]] = {"root": _rules()}


def register() -> None:
    """Let Pygments find the lexer by its name."""
    _mapping.LEXERS["CepheidLexer"] = (__name__, "Cepheid", ("cepheid",), ("*.cq",), ())
