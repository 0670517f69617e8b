"""Write the parser's tables beside the grammar: ``python -m cepheid.language.build_tables``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from lark.grammar import Rule
from lark.lexer import TerminalDef

from cepheid.language.parser import OPTIONS, build_parser, fingerprint, read_grammar


def make_tables() -> bytes:
    """Return the tables of the grammar as JSON."""
    parser = build_parser()
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    # Classes cannot be written; the reader puts them back.
    data["options"] = {**data["options"], "lexer": None, "transformer": None}
    data["parser"]["lexer_conf"]["lexer_type"] = None
    assert set(OPTIONS) <= set(data["options"]), "every option is written"
    tables: dict[str, Any] = {"made_from": fingerprint(read_grammar()), "data": data, "memo": memo}
    return msgspec.json.encode(tables)


def main() -> None:
    """Write ``tables.json``."""
    Path(__file__).with_name("tables.json").write_bytes(make_tables())


if __name__ == "__main__":
    main()
