"""Collects diagnostics, so that one run reports every mistake of a query."""

from __future__ import annotations

from collections import Counter

from cepheid.errors import (
    DIAGNOSTICS_MAX,
    BindError,
    Diagnostic,
    Note,
    QueryError,
    Span,
    UnsupportedError,
)


class Findings:
    """The mistakes and warnings found so far."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}
        self._counts: Counter[str] = Counter()

    def add(
        self,
        code: str,
        message: str,
        span: Span,
        *helps: str,
        label: str = "",
        notes: tuple[Note, ...] = (),
    ) -> None:
        """Add a finding once; empty helps are left out."""
        kept = tuple(help_ for help_ in helps if help_)
        diagnostic = Diagnostic(code, message, span, label, notes, kept)
        if diagnostic not in self._found:
            self._found[diagnostic] = None
            self._counts[code] += 1

    def has_enough(self, code: str) -> bool:
        """Check whether more findings of a code would not be shown, so need not be looked for."""
        return self._counts[code] >= DIAGNOSTICS_MAX

    @property
    def errors(self) -> list[Diagnostic]:
        """Return the mistakes in the order of the text, ten at most."""
        return self._in_order("error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings in the order of the text, ten at most."""
        return tuple(self._in_order("warning"))

    def raise_errors(self, text: str) -> None:
        """Raise if there is any mistake.

        Raises
        ------
        BindError
            If the query means nothing (E2xx, E3xx).
        UnsupportedError
            If all that stands against it is that Cepheid cannot do it yet (E4xx).
        """
        errors = self.errors
        if not errors:
            return
        later = all(d.code.startswith("E4") for d in errors)
        kind: type[QueryError] = UnsupportedError if later else BindError
        raise kind(errors, text)

    def _in_order(self, severity: str) -> list[Diagnostic]:
        found = [d for d in self._found if d.severity == severity]
        found.sort(key=lambda d: (d.span.start if d.span else 0, d.code))
        return found[:DIAGNOSTICS_MAX]
