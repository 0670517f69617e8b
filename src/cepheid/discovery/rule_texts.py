"""The queries of discovered rules: texts that can be run, watched and backtested."""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.discovery.cases import Names
from cepheid.discovery.forms import Form
from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_name as name

_LETTERS = "AB"


def _quoted(text: str) -> str:
    """Write a name of SQL, whose reserved words are many."""
    return "`" + text.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def sequence_query(types: Sequence[str], within_us: int | None, names: Names) -> str:
    """Write a query that reports the cases with a sequence, with their numbers of matches."""
    events = ", ".join(f"{name(one)} e{n}" for n, one in enumerate(types, start=1))
    key = name(names.key)
    lines = [f"RETURN {key}, COUNT(*) AS matches", f"PATTERN SEQ({events})", f"GROUP-BY {key}"]
    if within_us is not None:
        lines.append(f"WITHIN {format_duration(within_us)}")
    return "\n".join([*lines, "TIES arrival"])


def deadline_query(one: str, two: str, within_us: int, names: Names) -> str:
    """Write a query that reports events that another one does not follow in time."""
    key, limit = name(names.key), format_duration(within_us)
    return "\n".join(
        [
            f"RETURN e1.{key}, e1.{name(names.time)}",
            f"PATTERN SEQ({name(one)} e1, NOT {name(two)} e2 WITHIN {limit})",
            f"WHERE [{key}]",
            "TIES arrival",
        ]
    )


def form_query(form: Form, types: Sequence[str], names: Names, *, broken: bool = True) -> str:
    """Write SQL that reports the cases in which a form is broken, or those in which it holds.

    The pattern covers a whole case, so it needs the end of the case: it is for finished events.
    """
    kind, order = _quoted(names.type), ", ".join(map(_quoted, (names.time, *names.tiebreak)))
    letters = _LETTERS[: len(types)]
    other = " AND ".join(f"{kind} <> {_text(one)}" for one in types)
    every = " | ".join([*letters, "O"])
    patterns = form.broken if broken else form.holds
    written = " | ".join(f"({one})" for one in patterns).replace("X", f"({every})")
    named = zip(letters, types, strict=True)
    meant = {letter: f"{kind} = {_text(one)}" for letter, one in named}
    meant["O"] = f"{kind} IS NULL OR {other}"
    defined = [f"{letter} AS {what}" for letter, what in meant.items() if letter in written]
    return "\n".join(
        [
            "SELECT * FROM events MATCH_RECOGNIZE (",
            f"    PARTITION BY {_quoted(names.key)} ORDER BY {order}",
            f"    MEASURES COUNT(*) AS events, LAST({_quoted(names.time)}) AS at",
            f"    PATTERN (^ ({written}) $)",
            f"    DEFINE {', '.join(defined)}",
            ")",
        ]
    )
