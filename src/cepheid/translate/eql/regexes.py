"""Regular expressions of EQL in, those of RE2 out, as REGEX_MATCH takes them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.translate.translated import CannotTranslateError

_LUCENE = re.compile(r"(?<!\\)[~<>&@#\"^$]")
"""Letters that have a meaning of their own in Lucene, or none where others have one."""

_CLASSES = re.compile(r"\\[wWdDsSbB]")


def regex_of(pattern: str, *, whole: bool, any_case: bool) -> tuple[str, tuple[str, ...]]:
    r"""Write a regular expression; with ``whole``, it is one of Lucene and fits whole texts.

    Examples
    --------
    >>> regex_of("a.c", whole=True, any_case=True)
    ('(?is)\\A(?:a.c)\\z', ())
    >>> regex_of("a.c", whole=False, any_case=False)
    ('\\A(?:a.c)', ())
    """
    if whole and _LUCENE.search(pattern):
        message = "a regular expression with letters that mean other things in Lucene has no "
        raise CannotTranslateError(message + "counterpart")
    flags = ("i" if any_case else "") + ("s" if whole else "")
    head = f"(?{flags})" if flags else ""
    written = f"{head}\\A(?:{pattern})" + ("\\z" if whole else "")
    try:
        pc.match_substring_regex(pa.array([""]), pattern=written)
    except pa.ArrowInvalid:
        message = "a regular expression that RE2 does not have is not carried over"
        raise CannotTranslateError(message) from None
    note = (
        "letters, digits and blanks of regular expressions (`\\w`, `\\d`, `\\s`) are those of ASCII"
    )
    return written, (note,) if not whole and _CLASSES.search(pattern) else ()
