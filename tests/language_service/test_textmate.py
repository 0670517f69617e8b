"""The TextMate grammar colours the words of the language, and reads comments as the lexer does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.laws.mutations import corpus

from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.interfaces.editor.textmate import FILES, grammar, write_grammar
from cepheid.language.lexer import TOKEN
from cepheid.language.syntax_errors import CLAUSES

EDITORS = Path(__file__).parents[2] / "editors"


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_of_the_language(name: str, tmp_path: Path) -> None:
    (tmp_path / "vscode").mkdir()
    write_grammar(tmp_path)
    told = "run `make editors`"
    assert (EDITORS / name).read_bytes() == (tmp_path / name).read_bytes(), told


def scope_at(text: str, place: int) -> tuple[str, int]:
    """Find the scope of a place, and where it ends, as an editor does: the first pattern counts."""
    best: tuple[int, str, int] | None = None
    for pattern in grammar()["patterns"]:
        found = re.compile(pattern.get("match") or pattern["begin"], re.M).search(text, place)
        if found is None or (best is not None and found.start() >= best[0]):
            continue
        end = found.end()
        if "end" in pattern:
            end = end_of(text, end, pattern)
        best = (found.start(), pattern["name"], end)
    return (best[1], best[2]) if best is not None and best[0] == place else ("", place)


def end_of(text: str, place: int, pattern: dict[str, Any]) -> int:
    inner = [re.compile(one["match"]) for one in pattern.get("patterns", [])]
    while True:
        skipped = next((m for one in inner if (m := one.match(text, place))), None)
        closing = re.compile(pattern["end"]).match(text, place)
        if closing is not None and skipped is None:
            return closing.end()
        place = skipped.end() if skipped is not None else place + 1
        if place >= len(text):
            return len(text)


@pytest.mark.parametrize("word", sorted(KEYWORDS | INNER_KEYWORDS))
def test_every_keyword_is_coloured(word: str) -> None:
    written = CLAUSES.get(word, word.replace("_", " "))
    for text in (written, written.lower()):
        scope, end = scope_at(text, 0)
        assert scope.startswith(("keyword", "constant")), scope
        assert text[:end].casefold() in (written.casefold(), written.split()[0].casefold())


def test_comments_texts_and_quoted_names_are_those_of_the_lexer() -> None:
    kinds = {"STRING": "string.", "QUOTED": "variable.other.quoted", "SKIP": "comment."}
    seen = dict.fromkeys(kinds, 0)
    for text in [*corpus(), "PATTERN `lab ``result` a /* b\n c */"]:
        for match in TOKEN.finditer(text):
            kind = str(match.lastgroup)
            if kind in kinds and not match.group().isspace():
                scope, end = scope_at(text, match.start())
                assert scope.startswith(kinds[kind]), match.group()
                assert end == match.end(), match.group()
                seen[kind] += 1
    assert min(seen.values()) > 0, seen


def test_the_extension_names_files_that_are_there() -> None:
    package = json.loads((EDITORS / "vscode" / "package.json").read_text("utf-8"))
    places = [package["main"]]
    places += [one["path"] for one in package["contributes"]["grammars"]]
    places += [one["configuration"] for one in package["contributes"]["languages"]]
    for place in places:
        assert (EDITORS / "vscode" / place).is_file(), place
