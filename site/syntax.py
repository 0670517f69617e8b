"""Draw the grammar of queries as railroad diagrams, one for each rule, on a page in Markdown.

The grammar itself is read, so a diagram cannot differ from what the parser accepts.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import lark
import railroad

GRAMMAR = Path(__file__).parents[1] / "src/cepheid/language/grammar.lark"
META = Path(lark.__file__).with_name("grammars") / "lark.lark"
SECTION = re.compile(r"^// (?P<title>[A-Z][^-\n]*?)(?: -{3,})?$", re.MULTILINE)
RULE = re.compile(r"^[?!]?(?P<name>[a-z_]+):", re.MULTILINE)
CLASSES = {
    "NAME": "a type, variable, column or function; in backticks if it is also a keyword",
    "NUMBER": "`5`, `0.25`, `1e-3`",
    "STRING": "`'text'`, with `''` for a quote",
    "UNIT": "`milliseconds`, `seconds`, `minutes`, `hours`, `days`, `weeks` and their short forms",
    "MODE": "a word of the clause, such as `skip-till-next-match`, `strict`, `exact`",
    "RELATION": "one of Allen's relations, such as `before`, `during`, `overlapped by`",
    "COMPARE": "`=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`",
    "PLUS_MINUS": "`+`, `-`",
    "TIMES": "`*`, `/`, `%`",
    "SKIP_MODE": "`PAST LAST ROW`, `TO NEXT ROW`",
    "SKIP_TARGET": "`TO FIRST`, `TO LAST`",
    "DIRECTION": "`ASC`, `DESC`",
    "NULLS": "`NULLS FIRST`, `NULLS LAST`",
}
"""Terminals that are more than one word, and what they accept."""


def page() -> str:
    """Return the page: the grammar's sections and rules in its own order."""
    text = GRAMMAR.read_text("utf-8")
    trees = _rules(text)
    parts = [_HEAD]
    for start, title, name in sorted(_places(text)):
        del start
        if title:
            parts.append(f"## {title}\n")
        else:
            label = name.replace("_", " ")
            svg = _svg(railroad.Diagram(_draw(trees[name])))
            anchor = name.replace("_", "-")
            parts.append(f"### {label} {{ #{anchor} }}\n")
            parts.append(f'<div class="railroad">{svg}</div>\n')
    parts.append("## Terminals\n\n| terminal | what it accepts |\n|---|---|")
    parts += [f"| {name} | {told} |" for name, told in CLASSES.items()]
    return "\n".join(parts) + "\n"


_HEAD = """# Syntax

Drawn from the grammar that the parser uses. Keywords are read in any case, and only where the
grammar allows them, so attributes may be called `count` or `first`. A box leads to its rule; words
with round ends are written as they are. [The language](language.md) explains them with examples,
[SQL](sql.md) has the MATCH_RECOGNIZE clause.
"""


def _places(text: str) -> list[tuple[int, str, str]]:
    """Return where sections and rules begin."""
    places = [(m.start(), m["title"].split(" (")[0], "") for m in SECTION.finditer(text)]
    first = next(RULE.finditer(text)).start()
    places = [place for place in places if place[0] > first]
    return [*places, *((m.start(), "", m["name"]) for m in RULE.finditer(text))]


def _rules(text: str) -> dict[str, Any]:
    """Parse the grammar with the grammar of grammars, and return the tree of each rule."""
    parser = lark.Lark(META.read_text("utf-8"), parser="lalr", maybe_placeholders=True)
    tree = parser.parse(text)
    return {
        str(rule.children[0]).lstrip("?!"): rule.children[-1] for rule in tree.find_data("rule")
    }


def _draw(tree: Any) -> Any:
    """Turn a tree of the grammar into a diagram."""
    if tree.data == "expansions":
        return railroad.Choice(0, *(_draw(child) for child in tree.children))
    if tree.data == "alias":
        return _draw(tree.children[0])
    if tree.data == "expansion":
        return railroad.Sequence(*(_draw(child) for child in tree.children))
    if tree.data == "expr":
        inner, operator = _draw(tree.children[0]), tree.children[1]
        if operator is None:
            return inner
        repeated = {"?": railroad.Optional, "*": railroad.ZeroOrMore, "+": railroad.OneOrMore}
        return repeated[str(operator)](inner)
    word = str(tree.children[0])
    if tree.data == "literal":
        return railroad.Terminal(word.strip('"'))
    if word in CLASSES:
        return railroad.NonTerminal(word, href="#terminals")
    if word.isupper():
        return railroad.Terminal(word.replace("_", " "))
    return railroad.NonTerminal(word.replace("_", " "), href=f"#{word.replace('_', '-')}")


def _svg(diagram: Any) -> str:
    """Write a diagram as one line of SVG, which Markdown takes as it is."""
    out = io.StringIO()
    diagram.writeSvg(out.write)
    return out.getvalue().replace("\n", "")
