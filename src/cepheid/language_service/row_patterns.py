"""The words of a MATCH_RECOGNIZE clause, or of a window with PATTERN, that may come next."""

from __future__ import annotations

from cepheid.language_service import meanings
from cepheid.language_service.answers import CompletionKind
from cepheid.language_service.places import tokens_of

_ORDER = (
    "PARTITION BY",
    "ORDER BY",
    "MEASURES",
    "ONE ROW PER MATCH",
    "ALL ROWS PER MATCH",
    "AFTER MATCH SKIP PAST LAST ROW",
    "AFTER MATCH SKIP TO NEXT ROW",
    "PATTERN",
    "WITHIN",
    "SUBSET",
    "DEFINE",
)
"""The clauses in the order in which they stand."""
_WINDOW_ORDER = (
    *("PARTITION BY", "ORDER BY", "MEASURES", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"),
    *("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW", "INITIAL", "SEEK"),
    *("PATTERN", "SUBSET", "DEFINE"),
)
"""Those of a window."""
_CALLS = ("PREV", "NEXT", "FIRST", "LAST", "CLASSIFIER", "MATCH_NUMBER", "COUNT", "SUM", "AVG")
_WORDS = ("RUNNING", "FINAL", "AND", "OR", "NOT", "AS", "IS NULL", "BETWEEN", "LIKE", "IN")


def row_pattern_words(before: str) -> list[tuple[str, CompletionKind, str, str, str]]:
    """List the clauses that may still come, and the words of their expressions."""
    words = [token.group().upper() for token in tokens_of(before)]
    starts = [n for n, word in enumerate(words) if word in ("MATCH_RECOGNIZE", "WINDOW", "OVER")]
    inside = words[starts[-1] :] if starts else []
    order = _ORDER if inside[:1] == ["MATCH_RECOGNIZE"] else _WINDOW_ORDER
    depth = inside.count("(") - inside.count(")")
    if not inside or depth <= 0:
        outside = ("SELECT", "FROM", "MATCH_RECOGNIZE", "WHERE", "WINDOW", "OVER", "AS")
        return [(word, CompletionKind.KEYWORD, word, "", "§11.5") for word in outside]
    seen = [place for place, one in enumerate(order) if one.split()[0] in inside]
    rest = order[max(seen, default=-1) + 1 :] if depth == 1 else ()
    found = []
    for clause in rest:
        meaning = meanings.ROW_PATTERN_KEYWORDS.get(clause.split()[0])
        text, section = meaning or ("", "§11")
        found.append((clause, CompletionKind.CLAUSE, clause, text, section))
    found += [(word, CompletionKind.FUNCTION, f"{word}(", "", "§11") for word in _CALLS]
    return found + [(word, CompletionKind.KEYWORD, word, "", "§11") for word in _WORDS]
