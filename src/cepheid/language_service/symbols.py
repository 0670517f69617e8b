"""Outline a text: its streams, clauses, variables, situations and result columns."""

from __future__ import annotations

import re

from cepheid.errors import CepheidError, Span
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.language_service.answers import Symbol, SymbolKind
from cepheid.language_service.names import names_of, streams_of
from cepheid.language_service.places import Piece, pieces_of, tokens_of

_TWO = {"GROUP": "GROUP-BY", "PARTITION": "PARTITION BY", "ORDER": "ORDER BY", "MIN": "MIN LENGTH"}
_TWO |= {"AFTER": "AFTER MATCH SKIP", "DETECTED": "DETECTED WITHIN"}
_ONE = (
    *("RETURN", "PATTERN", "SEMANTICS", "WHERE", "HAVING", "WITHIN", "EMIT", "TIES", "NUMBERS"),
    *("LIMIT", "FROM", "DEFINE", "SITUATIONS", "SELECT", "JOIN", "WINDOW", "MEASURES"),
)


def symbols(text: str) -> list[Symbol]:
    """Outline a text in the order of its places; a text that cannot be read has an outline, too.

    Examples
    --------
    >>> [(s.kind.value, s.name) for s in symbols("RETURN COUNT(*) AS n PATTERN Stock S+")]
    [('clause', 'RETURN'), ('result', 'n'), ('clause', 'PATTERN'), ('variable', 'S')]
    """
    found = [
        Symbol(stream.name, SymbolKind.STREAM, stream.span, "derived stream")
        for stream in streams_of(text)
    ]
    for piece in pieces_of(text):
        if piece.query is not None:
            found += _of_query(text, piece, piece.query)
    found += _results(text)
    found.sort(key=lambda symbol: (symbol.span.start, symbol.kind is not SymbolKind.CLAUSE))
    return found


def _of_query(text: str, piece: Piece, begin: int) -> list[Symbol]:
    """Outline the clauses and names of one query."""
    around = text[begin : piece.end]
    found = []
    clauses: list[tuple[str, re.Match[str]]] = []
    depth, last = 0, ""
    for token in tokens_of(around):
        word = token.group()
        depth += (word in "([{") - (word in ")]}")
        upper = word.upper()
        is_clause = token.lastgroup == "WORD" and depth == 0 and last != "."
        name = _TWO.get(upper, upper if upper in _ONE else "")
        if is_clause and name and (name != "WITHIN" or last.upper() != "DETECTED"):
            clauses.append((name, token))
        last = word
    ends = [token.start() for _, token in clauses] + [len(around.rstrip().rstrip(";"))]
    for (name, token), end in zip(clauses, ends[1:], strict=True):
        inner = around[token.start() : end].rstrip()
        span = Span(begin + token.start(), begin + token.start() + len(inner))
        found.append(Symbol(name, SymbolKind.CLAUSE, span, " ".join(inner.split())[:80]))
    names = names_of(around)
    listed = [(one, SymbolKind.VARIABLE) for one in names.variables]
    listed += [(one, SymbolKind.SITUATION) for one in names.situations]
    for declared, kind in listed:
        span = Span(begin + declared.span.start, begin + declared.span.end)
        found.append(Symbol(declared.name, kind, span, declared.of))
    return found


def _results(text: str) -> list[Symbol]:
    """List the result columns that a text names, if it can be read."""
    try:
        parsed = parse(text)
    except CepheidError:
        return []
    return [
        Symbol(node.alias.text, SymbolKind.RESULT, node.alias.span)
        for node in tree.walk(parsed)
        if isinstance(node, tree.ReturnItem) and node.alias is not None
    ]
