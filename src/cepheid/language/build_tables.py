"""Make the parser's tables with Lark: ``python -m cepheid.language.build_tables`` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lark
import msgspec
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

from cepheid.language.grammar import fingerprint, read_grammar
from cepheid.language.lalr import Rule, Tables


class _NoLexer(Lexer):
    """Stands for the lexer, which the tables do not need."""

    __future_interface__ = 2

    def __init__(self, _lexer_conf: object = None) -> None:
        return

    def lex(self, _lexer_state: object, _parser_state: object) -> Iterator[Any]:
        """Fail: Lark asks for a lexer to build tables, and nothing is lexed with it."""
        message = "tables are built without reading a text"
        raise AssertionError(message)


OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": _NoLexer,
    "start": ["query", "situation_query", "select_query"],
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def build_parser(grammar: str, **options: Any) -> lark.Lark:
    """Let Lark read a grammar; ``strict=True`` fails on every conflict."""
    return lark.Lark(grammar, **{**OPTIONS, **options})


def make_tables() -> Tables:
    """Make the tables of the grammar."""
    grammar = read_grammar()
    built: Any = build_parser(grammar)
    table = built.parser.parser._parse_table
    rules = list(dict.fromkeys(built.rules))
    ends = {rule: -number - 1 for number, rule in enumerate(rules)}
    order = _order(table)
    states = [
        {
            name: order[argument] if action is Shift else ends[argument]
            for name, (action, argument) in sorted(table.states[state].items())
        }
        for state in order
    ]
    starts = {
        name: (order[table.start_states[name]], order[table.end_states[name]])
        for name in OPTIONS["start"]
    }
    return Tables(fingerprint(grammar), starts, states, [_rule(rule) for rule in rules])


def _order(table: Any) -> dict[int, int]:
    """Give each state its place in the order in which they are reached; Lark shuffles them."""
    waiting = [table.start_states[name] for name in OPTIONS["start"]]
    found: dict[int, int] = {}
    for state in waiting:
        if state not in found:
            found[state] = len(found)
            actions = sorted(table.states[state].items())
            waiting += [argument for _, (action, argument) in actions if action is Shift]
    return found


def _rule(rule: Any) -> Rule:
    assert rule.options.keep_all_tokens, "no child is left out"
    assert not rule.options.empty_indices, "no child stands for nothing"
    joined = [
        place
        for place, symbol in enumerate(rule.expansion)
        if not symbol.is_term and symbol.name.startswith("_")
    ]
    origin = str(rule.origin.name)
    passed = bool(rule.options.expand1 and not rule.alias)
    alone = passed and len(rule.expansion) == 1 and not joined
    callback = "" if alone or origin.startswith("_") else str(rule.alias or origin)
    return Rule(origin, len(rule.expansion), callback, joined, passed)


def encode(tables: Tables) -> bytes:
    """Write tables as JSON, one state and one rule a line."""
    text = msgspec.json.encode(tables)
    return text.replace(b"},{", b"},\n{").replace(b"],[", b"],\n[") + b"\n"


def main() -> None:
    """Write ``tables.json``."""
    Path(__file__).with_name("tables.json").write_bytes(encode(make_tables()))


if __name__ == "__main__":
    main()
