"""Turn the helps of a diagnostic into edits that could repair it.

A help names in backquotes what to type. Not every such text belongs where the mistake is, so these
are guesses, which ``diagnose`` tries out one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cepheid.errors import Diagnostic, Span
from cepheid.expressions.format import format_name
from cepheid.language_service.answers import Fix, TextEdit
from cepheid.language_service.places import piece_at

_QUOTED = re.compile(r"`` (.+?) ``|`([^`]+)`")
_INSTEAD = re.compile(r"(?:did you mean|\bwrite|^use|, or| or) $")
"""The words before a text that stands in the place of a mistake."""
_TEXT = re.compile(r"^write ('[^']*')")
_ONE_OF = re.compile(r"write one of: (.+)")
_ADDED = re.compile(r"^add (?:a window: )?`([^`]+)`")
_BEFORE = re.compile(r"([^\w\s]|\w+)\s*\w+\s*$")
SHOWN_MAX = 40
"""Characters of a title; the rest of a longer text is left out."""
WORDS_MAX = 20
"""Words of a text that other marks are put between."""


class Candidate(NamedTuple):
    """A fix that may repair a mistake; ``sure`` if it does not need the rest to be right."""

    fix: Fix
    sure: bool = False


def candidates(text: str, one: Diagnostic) -> list[Candidate]:
    """List edits that the helps of a diagnostic speak of, the likeliest first."""
    if one.span is None:
        return []
    start = min(one.span.start, len(text))
    span = Span(start, max(start, min(one.span.end, len(text))))
    found: dict[tuple[TextEdit, ...], Candidate] = {}
    for help_ in one.helps:
        for candidate in _from_help(text, span, help_):
            (edit,) = candidate.fix.edits
            if edit.text != text[edit.span.start : edit.span.end]:
                found.setdefault(candidate.fix.edits, candidate)
    return list(found.values())


def _from_help(text: str, span: Span, help_: str) -> Iterator[Candidate]:
    here = text[span.start : span.end]
    if "with AND" in help_:
        joined = _replacing(text, span, " AND") if here == "," else _inserting(span.start, "AND ")
        yield Candidate(joined, sure=True)
    if "with commas" in help_:
        yield Candidate(_inserting(len(text[: span.start].rstrip()), ","), sure=True)
    if "into SEQ" in help_:
        yield from _in_sequence(text, span)
    if help_.startswith("close it with"):
        mark = help_.removeprefix("close it with ")[0]
        yield Candidate(_inserting(len(text[: span.end].rstrip()), mark), sure=True)
    if help_.startswith("end it with */"):
        yield Candidate(_inserting(len(text), " */"), sure=True)
    if help_.startswith("remove the "):
        before = _BEFORE.search(text[: span.start])
        if before:
            yield Candidate(_removing(text, Span(before.start(1), before.end(1))))
    if help_.startswith(("leave ", "remove it")):
        yield Candidate(_removing(text, span))
    added = _ADDED.match(help_)
    if added:
        yield Candidate(_appending(text, span, added.group(1)))
    yield from _replacements(text, span, help_)


def _in_sequence(text: str, span: Span) -> Iterator[Candidate]:
    """Yield the pattern around a mistake inside of SEQ."""
    before = [m.end() for m in re.finditer(r"(?i)\bpattern\s+", text[: span.start])]
    ends = re.compile(r"(?i)\s*(?:;|$|\b(?:return|semantics|where|group|having|within|emit)\b)")
    end = ends.search(text, span.end)
    if before and end is not None:
        place = Span(before[-1], end.start())
        pattern = text[place.start : place.end]
        if "," in pattern:
            yield Candidate(_replacing(text, place, f"SEQ({pattern})"))


def _replacements(text: str, span: Span, help_: str) -> Iterator[Candidate]:
    """Yield the texts that a help names, in the place of the mistake or of the same words."""
    quoted = _TEXT.match(help_)
    if quoted:
        yield Candidate(_replacing(text, span, quoted.group(1)))
    for match in _QUOTED.finditer(help_):
        word = match.group(1) or match.group(2)
        suggested = help_[: match.start()].endswith("did you mean ")
        if _INSTEAD.search(help_[: match.start()]) or help_[: match.start()].endswith(": "):
            wider = _same_words(text, span, word)
            if wider is not None:
                yield Candidate(_replacing(text, wider, word))
        if _INSTEAD.search(help_[: match.start()]) or match.group(1) or "quotes: " in help_:
            plain = _as_name(word) if suggested else word
            yield Candidate(_replacing(text, span, plain), sure=suggested or _is_mark(text, span))
            before = re.search(r"\w+\s+$", text[: span.start])
            # A keyword where a name may stand is read as that name: the mistake shows late.
            if before and word[:1].isupper():
                late = Span(before.start(), span.start)
                yield Candidate(_replacing(text, late, f"{word} "))
    listed = _ONE_OF.search(help_)
    for word in listed.group(1).split(", ") if listed else ():
        yield Candidate(_replacing(text, span, word), sure=True)


def _is_mark(text: str, span: Span) -> bool:
    """Check whether a mistake is a mark of another language, such as `&&`."""
    here = text[span.start : span.end]
    return bool(here) and not re.search(r"[\w\s]", here)


def _same_words(text: str, span: Span, wanted: str) -> Span | None:
    """Find the place around a mistake that has the words of a text with other marks between them.

    What is written `A+ B` becomes `SEQ(A+, B)` so.
    """
    words = re.findall(r"\w+", wanted)
    found = list(re.finditer(r"\w+", text))
    plain = words[1:] if words[:1] == ["SEQ"] else words
    for list_ in (words, plain):
        if not 0 < len(list_) <= WORDS_MAX:
            continue
        for first in range(len(found) - len(list_) + 1):
            part = found[first : first + len(list_)]
            begin, end = part[0].start(), part[-1].end()
            if begin <= span.end and end >= span.start and [m.group() for m in part] == list_:
                place = _closed(text, begin, end)
                return place if _loops(text[place.start : place.end]) == _loops(wanted) else None
    return None


def _loops(text: str) -> list[str]:
    """List the marks of repetition; a repair leaves them as they are."""
    return sorted(re.findall(r"[+*?{}]", text))


def _closed(text: str, begin: int, end: int) -> Span:
    """Widen a place by the repetition, bracket or quote that belongs to its last word."""
    if text[end : end + 1] in tuple("+*?"):
        end += 1
    inner = text[begin:end]
    following = text[end : end + 1]
    opened = inner.count("(") > inner.count(")") and following == ")"
    return Span(begin, end + (opened or (following in tuple("'\"") and inner.count(following) % 2)))


def _as_name(word: str) -> str:
    """Put a name between backquotes if it needs them; keywords stay as they are."""
    return word if re.fullmatch(r"[\w-]+(?: \w+)*", word) else format_name(word)


def _appending(text: str, span: Span, clause: str) -> Fix:
    """Add a clause at the end of the query that a mistake is in."""
    piece = piece_at(text, span.start)
    query = text[piece.begin : piece.end].rstrip().removesuffix(";").rstrip()
    return _inserting(piece.begin + len(query), f"\n{clause}" if "\n" in query else f" {clause}")


def _removing(text: str, span: Span) -> Fix:
    end = span.end + (text[span.end : span.end + 1] == " " and text[: span.start][-1:] in ("", " "))
    title = f"remove `{_short(text[span.start : span.end])}`"
    return Fix(title, (TextEdit(Span(span.start, end), ""),))


def _inserting(place: int, word: str) -> Fix:
    return Fix(f"insert `{_short(word)}`", (TextEdit(Span(place, place), word),))


def _replacing(text: str, span: Span, word: str) -> Fix:
    here = _short(text[span.start : span.end])
    title = f"replace `{here}` by `{_short(word)}`" if here else f"insert `{_short(word)}`"
    return Fix(title, (TextEdit(span, word),))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}…"
