"""Diagnostics and exceptions: the mistake, its place in the query, and a way out.

The tree of exceptions::

    CepheidError                 carries .diagnostics
    ├── QueryError               the query text is at fault
    │   ├── QuerySyntaxError     E1xx: it cannot be parsed
    │   ├── BindError            E2xx, E3xx: its names, types or clauses do not fit
    │   └── UnsupportedError     E4xx: Cepheid cannot run it yet
    ├── DataError                E5xx: a file or an event is at fault
    └── OptionError              E59x: a function argument is at fault; see ``cepheid.options``

SQL has codes of its own, E6xx, and the same exceptions.

Rendering is a pure function of a diagnostic and the query text.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

DIAGNOSTICS_MAX = 10
"""The maximum number of mistakes that one run reports."""

NAMES_LISTED_MAX = 8
"""A help lists all names when there are at most this many."""


class Span(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A half-open range of characters in a query text, and the text there if it is short.

    Messages about data quote ``text``, since the query has been rewritten by the time data arrives.
    """

    start: int
    end: int
    text: str = ""

    def to(self, other: Span) -> Span:
        """Compute the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class Note(msgspec.Struct, frozen=True):
    """A second place in the query that explains the first."""

    message: str
    span: Span


class Diagnostic(msgspec.Struct, frozen=True):
    """One mistake: a code, one sentence, the place, and what to type instead."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    helps: tuple[str, ...] = ()

    @property
    def severity(self) -> str:
        """Return ``"warning"`` for W codes and ``"error"`` for all others."""
        return "warning" if self.code.startswith("W") else "error"


class CepheidError(Exception):
    """The base class of all errors about a query or its data."""

    def __init__(
        self,
        diagnostics: Sequence[Diagnostic],
        text: str = "",
        *,
        file: str = "query",
    ) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        self.text = text
        self.file = file
        super().__init__(self.diagnostics, text)

    def __str__(self) -> str:
        """Format every diagnostic as a block with a caret."""
        return render_diagnostics(self.diagnostics, self.text, file=self.file)


class QueryError(CepheidError):
    """The query text is at fault."""


class QuerySyntaxError(QueryError):
    """The query text cannot be parsed (E1xx)."""


class BindError(QueryError):
    """The query parses, but its names, types or clauses do not fit together (E2xx, E3xx)."""


class UnsupportedError(QueryError):
    """The query is valid, but Cepheid cannot run it yet (E4xx)."""


class DataError(CepheidError):
    """A file or an event is at fault (E5xx)."""


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Compute the line and the column of a character, both counted from 1."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - text.rfind("\n", 0, offset)


def place_of(text: str, span: Span) -> str:
    r"""Format the start of a span as ``line:column``.

    Examples
    --------
    >>> place_of("RETURN COUNT(*)\nPATTERN A", Span(24, 25))
    '2:9'
    """
    line, column = line_and_column(text, span.start)
    return f"{line}:{column}"


_JOINERS = "\u200c\u200d"
"""Characters without width that Persian, Indian scripts and emoji are written with."""


def visible(text: str, *, keep: str = "") -> str:
    r"""Escape all characters of a text that would control a terminal.

    Control characters, bidirectional overrides, line separators and lone surrogates can come from
    data, column names and file names. They are escaped as in Python, except those in ``keep``.

    Examples
    --------
    >>> visible("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in kept
        else char
        for kept in (keep + _JOINERS,)
        for char in text
    )


def render_diagnostics(diagnostics: Iterable[Diagnostic], text: str, *, file: str = "query") -> str:
    """Format several diagnostics, with an empty line between them."""
    return "\n\n".join(render_diagnostic(d, text, file=file) for d in diagnostics)


def render_diagnostic(diagnostic: Diagnostic, text: str, *, file: str = "query") -> str:
    """Format one diagnostic as a block of text, with the place in the query underlined."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {visible(diagnostic.message)}"]
    places = [Note(diagnostic.label, diagnostic.span)] if diagnostic.span is not None else []
    places += diagnostic.notes
    numbers = [line_and_column(text, place.span.start)[0] for place in places]
    width = len(str(max(numbers, default=0)))
    for mark, place in zip("^" + "-" * len(places), places, strict=False):
        lines += _render_place(place, text, file, width, mark=mark)
    pad = " " * width
    lines += [f"{pad} = help: {visible(help_)}" for help_ in diagnostic.helps]
    return "\n".join(lines)


LINE_SHOWN_MAX = 160
"""A longer source line is cut around the place that is underlined."""


def _render_place(place: Note, text: str, file: str, width: int, *, mark: str) -> list[str]:
    """Format the lines that show one place; only the first line of a long span is underlined."""
    number, column = line_and_column(text, place.span.start)
    source = (text.split("\n", number)[number - 1]).rstrip("\r")
    length = max(1, min(place.span.end - place.span.start, len(source) - column + 1))
    # A caret stands below a column of the terminal, and a character may take none, one or two.
    # Tabs and other control characters would shift it, so they show as blanks here.
    source = "".join(c if c.isprintable() else " " for c in source)
    start = column - 1
    if len(source) > LINE_SHOWN_MAX:
        cut = max(0, start - LINE_SHOWN_MAX // 4)
        more = "…" if cut + LINE_SHOWN_MAX < len(source) else ""
        source = ("…" if cut else "") + source[cut : cut + LINE_SHOWN_MAX] + more
        start = start - cut + bool(cut)
        length = min(length, len(source) - start)
    pad = " " * width
    where = f"{pad}--> {visible(file)}:{number}:{column}" if mark == "^" else f"{pad} |"
    marked = max(1, _columns(source[start : start + length]))
    underline = " " * _columns(source[:start]) + mark * marked
    underline += f" {visible(place.message)}" if place.message else ""
    shown = [f"{number:>{width}} | {source}", f"{pad} | {underline}"]
    return [where, f"{pad} |", *shown] if mark == "^" else [where, *shown]


def _columns(text: str) -> int:
    """Count the terminal columns of a text: wide characters take two, accents none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in ("W", "F") for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me") for c in text)


def suggest_names(wanted: str, known: Iterable[str], *, owner: str = "known names") -> str:
    """Suggest the nearest names, or all of them if there are few.

    Examples
    --------
    >>> suggest_names("prise", ["price", "volume"], owner="`Stock`")
    'did you mean `price`? `Stock` has: price, volume'
    """
    names = sorted(set(known))
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wanted.lower(), folded, n=1, cutoff=0.6)
    # A shorter word for the same: `temp` for `temperature`.
    near = near or [one for one in folded if len(one) > 2 and wanted.lower().startswith(one)]
    parts = [f"did you mean `{folded[near[0]]}`?"] if near else []
    if names and len(names) <= NAMES_LISTED_MAX:
        parts.append(f"{owner} has: {', '.join(names)}")
    elif names and not near:
        parts.append(f"{owner} has {len(names)} names, among them: {', '.join(names[:5])}")
    return " ".join(parts)
