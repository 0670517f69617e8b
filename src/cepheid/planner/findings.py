"""Collects diagnostics, so that one run reports every mistake of a query."""

from __future__ import annotations

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
        self._found: list[Diagnostic] = []

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
            self._found.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        """Return the mistakes in the order of the text, ten at most."""
        errors = [d for d in self._in_order() if d.severity == "error"]
        return errors[:DIAGNOSTICS_MAX]

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings in the order of the text."""
        return tuple(d for d in self._in_order() if d.severity == "warning")

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

    def _in_order(self) -> list[Diagnostic]:
        return sorted(self._found, key=lambda d: (d.span.start if d.span else 0, d.code))
