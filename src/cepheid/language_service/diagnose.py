"""Find the mistakes and warnings of a text, each with edits that repair it."""

from __future__ import annotations

from typing import Any, NamedTuple

from cepheid.api import CompiledQuery, query
from cepheid.errors import Diagnostic, QueryError, Span
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.language.lexer import has_row_pattern
from cepheid.language_service.answers import Finding, Severity, apply_edits
from cepheid.language_service.fixes import Candidate, candidates
from cepheid.language_service.places import tokens_of
from cepheid.options import OptionError

CANDIDATES_MAX = 24
"""Edits that are tried for one text; each takes as long as checking the text."""


def diagnostics(
    text: str,
    schema: object = None,
    *,
    time: str = "ts",
    type: str | None = "type",  # noqa: A002  # as in `cepheid.query`
    time_unit: str = "us",
    time_format: str | None = None,
) -> list[Finding]:
    """Find all mistakes and warnings of a text, in the order of the text.

    Parameters
    ----------
    text
        Any text: a query, a pipeline, a SELECT, situations, or SQL with MATCH_RECOGNIZE.
    schema
        The columns of the events, as for :func:`cepheid.query`, for a query over two streams a
        dict of them by name; without it names and types are not checked.
    time, type, time_unit, time_format
        As for :func:`cepheid.query`.

    Returns
    -------
    list of Finding
        Every fix was tried: the text that it gives no longer has the mistake, and no new one.

    Raises
    ------
    OptionError
        If an option other than the text is wrong, as for :func:`cepheid.query`.

    Examples
    --------
    >>> columns = {"ts": "timestamp", "type": "string", "price": "double"}
    >>> found = diagnostics("PATTERN Stock S WHERE S.prise > 5", columns)
    >>> found[0].code, found[0].fixes[0].title
    ('E201', 'replace `prise` by `price`')
    """
    checking = _Checking(schema, time, type, time_unit, time_format)
    found = checking.found(text)
    left = CANDIDATES_MAX
    findings = []
    for one in found:
        tried = candidates(text, one)[:left]
        left -= len(tried)
        fixes = tuple(c.fix for c in tried if checking.repairs(text, found, one, c))
        span, severity = _within(one.span, text), _severity(one, text)
        about = (one.code, one.message, span, severity, one.label, one.notes, one.helps)
        findings.append(Finding(*about, fixes))
    return findings


class _Checking(NamedTuple):
    """Checks texts against the same columns."""

    schema: object
    time: str
    type: str | None
    time_unit: str
    time_format: str | None

    def found(self, text: str) -> list[Diagnostic]:
        """List the mistakes of a text, or the warnings if it has none."""
        if not text.strip():
            return []
        try:
            if _is_other_sql(text):
                read_statement(text)
                return []
            return list(self._compiled(text).warnings)
        except QueryError as error:
            return list(error.diagnostics)

    def _compiled(self, text: str) -> CompiledQuery:
        """Plan a query; the columns of one stream say nothing of a query over two."""
        options: dict[str, Any] = {"time": self.time, "type": self.type}
        options |= {"time_unit": self.time_unit, "time_format": self.time_format}
        try:
            return query(text, schema=self.schema, **options)
        except OptionError:
            if self.schema is None:
                raise
            return query(text, **options)

    def repairs(
        self, text: str, before: list[Diagnostic], one: Diagnostic, tried: Candidate
    ) -> bool:
        """Check whether a fix takes a mistake away and makes no new one.

        A parser stops at its first mistake, so all mistakes in names and types are new where it
        stopped. A sure fix may also leave another mistake for the parser, further on.
        """
        after = self.found(apply_edits(text, tried.fix.edits))
        told = {(other.code, other.message) for other in after}
        if (one.code, one.message) in told:
            return False
        if not _is_syntax(one):
            known = {(other.code, other.message) for other in before}
            new = [d for d in after if (d.code, d.message) not in known]
            return not any(other.severity == "error" for other in new)
        edit = tried.fix.edits[0]
        end = edit.span.start + len(edit.text)
        return not any(
            _is_syntax(other)
            and not (tried.sure and other.span is not None and other.span.start > end)
            for other in after
        )


def _is_syntax(one: Diagnostic) -> bool:
    """Check whether the parser stopped there."""
    return one.code.startswith("E1") or one.code in ("E350", "E601", "E602", "E615")


def _is_other_sql(text: str) -> bool:
    """Check whether a text is SQL that only `cepheid.sql` takes."""
    words = [token.group().upper() for token in tokens_of(text)]
    return words[:1] == ["WITH"] and bool({"MATCH_RECOGNIZE", "PATTERN"} & set(words))


def _severity(one: Diagnostic, text: str) -> Severity:
    if one.code == "E404" and has_row_pattern(text):
        # Such a text is no query, and `cepheid.sql` runs it.
        return Severity.INFORMATION
    return Severity(one.severity)


def _within(span: Span | None, text: str) -> Span:
    """Limit a span to the text; a mistake without a place concerns all of it."""
    end = len(text)
    if span is None:
        return Span(0, end)
    start = min(span.start, end)
    return Span(start, max(start, min(span.end, end)))
