"""Regular expressions of EQL in, those of RE2 out, as REGEX_MATCH takes them.

Elasticsearch reads them as Lucene does, and Python as itself. Lucene's fit whole texts; ``^`` and
``$`` are letters, ``"`` quotes text, ``@`` is any text, and of what follows a backslash only the
classes of letters mean more than the letter.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.translate.translated import CannotTranslateError

_CLASSES = re.compile(r"\\[wWdDsSbB]")
_PLAIN = re.compile(r"[\w\s\x80-\U0010ffff]")
_REPEATS = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")
_SETS = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\r"}
"""The letters of Lucene's classes, inside brackets."""

_ABSENT = {"~": "complements", "&": "intersections", "<": "ranges of numbers", "#": "the empty set"}
"""Parts of Lucene's regular expressions that RE2 does not have."""


def regex_of(pattern: str, *, whole: bool, any_case: bool) -> tuple[str, tuple[str, ...]]:
    r"""Write a regular expression; with ``whole``, it is one of Lucene and fits whole texts.

    Examples
    --------
    >>> regex_of("a.c", whole=True, any_case=True)
    ('(?is)\\A(?:a.c)\\z', ())
    >>> regex_of("a.c", whole=False, any_case=False)
    ('\\A(?:a.c)', ())
    """
    if whole:
        written = f"(?{'i' if any_case else ''}s)\\A(?:{lucene(pattern)})\\z"
    else:
        written = f"{'(?i)' if any_case else ''}\\A(?:{pattern})"
    _check(written)
    note = (
        "letters, digits and blanks of regular expressions (`\\w`, `\\d`, `\\s`) are those of ASCII"
    )
    return written, (note,) if not whole and _CLASSES.search(pattern) else ()


def lucene(pattern: str, without: str = "") -> str:
    r"""Write a regular expression of Lucene as one of RE2, whose ``.`` fits every letter.

    Letters of ``without`` are fitted by no part of it that does not name them.

    Examples
    --------
    >>> lucene('"a.c"[^x]*$'), lucene(".[^x]", "|")
    ('(?:a\\.c)[^x]*\\$', '[^\\|][^x\\|]')
    """
    return _Lucene(pattern, without).written()


def _check(written: str) -> None:
    try:
        pc.match_substring_regex(pa.array([""]), pattern=written)
    except pa.ArrowInvalid:
        message = "a regular expression that RE2 does not have is not carried over"
        raise CannotTranslateError(message) from None


def escaped(letter: str) -> str:
    """Write a letter that stands for itself."""
    return letter if _PLAIN.match(letter) else f"\\{letter}"


class _Lucene:
    """Reads a regular expression of Lucene from the left to the right."""

    def __init__(self, pattern: str, without: str) -> None:
        self._text, self._at = pattern, 0
        self._no = "".join(map(escaped, without))
        self._any = f"[^{self._no}]" if self._no else "."

    def written(self) -> str:
        """Write the whole."""
        return self._alternatives(inside=False)

    def _alternatives(self, *, inside: bool) -> str:
        """Read up to the end, or to the end of a group."""
        found, atoms, repeated = [], [""], False
        while self._at < len(self._text) or inside:
            letter = self._take()
            if letter == ")" and inside:
                break
            if letter == "|":
                found.append("".join(atoms))
                atoms = [""]
            elif repeat := _REPEATS.match(self._text, self._at - 1):
                self._at = repeat.end()
                if not atoms[-1]:
                    self._fail()
                # RE2 reads `a*?` as one, where Lucene repeats the repeated.
                last = f"(?:{atoms[-1]})" if repeated else atoms[-1]
                atoms[-1], repeated = f"{last}{repeat.group()}", True
                continue
            elif letter == "(":
                atoms.append(f"(?:{self._alternatives(inside=True)})")
            else:
                atoms.append(self._one(letter))
            repeated = False
        return "|".join([*found, "".join(atoms)])

    def _take(self) -> str:
        if self._at == len(self._text):
            self._fail()
        self._at += 1
        return self._text[self._at - 1]

    def _fail(self) -> NoReturn:
        message = f"the regular expression `{self._text}` cannot be read"
        raise CannotTranslateError(message)

    def _one(self, letter: str) -> str:
        """Write what fits one letter, or a text in quotes."""
        if letter in _ABSENT:
            message = f"a regular expression with {_ABSENT[letter]} (`{letter}`) has no counterpart"
            raise CannotTranslateError(message)
        match letter:
            case ".":
                return self._any
            case "@":
                return f"{self._any}*"
            case '"':
                end = self._text.find('"', self._at)
                if end < 0:
                    self._fail()
                quoted, self._at = self._text[self._at : end], end + 1
                return f"(?:{''.join(map(escaped, quoted))})"
            case "[":
                return self._brackets()
            case "\\":
                return self._after_backslash()
            case "{" | ")":
                self._fail()
        return escaped(letter)

    def _after_backslash(self) -> str:
        letter = self._take()
        if letter.lower() not in _SETS:
            return escaped(letter)
        no = f"^{self._no}" if letter.isupper() else ""
        return f"[{no}{_SETS[letter.lower()]}]"

    def _brackets(self) -> str:
        opposite = self._text.startswith("^", self._at)
        self._at += opposite
        parts = ["^"] if opposite else []
        first = True
        while (letter := self._take()) != "]" or first:
            first = False
            if letter == "\\":
                letter = self._take()
                if letter in _SETS:
                    parts.append(_SETS[letter])
                    continue
                if letter.lower() in _SETS:
                    message = f"`\\{letter}` between brackets has no counterpart"
                    raise CannotTranslateError(message)
                parts.append(escaped(letter))
            else:
                # A hyphen between two letters means all from the one to the other.
                parts.append(letter if letter == "-" and len(parts) > opposite else escaped(letter))
        return f"[{''.join(parts)}{self._no if opposite else ''}]"
