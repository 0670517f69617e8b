"""The plan of a survey: rows about matches that are never built (§17)."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class SurveyForm(StrEnum):
    """The kind of rows of a survey: drawn matches, the best ones, or events."""

    SAMPLE = "sample"
    TOP = "top"
    BLAME = "blame"
    HISTOGRAM = "histogram"
    PERCENTILE = "percentile"

    @property
    def is_distribution(self) -> bool:
        """Check whether values of matches are counted (§17.7, §17.8)."""
        return self in (SurveyForm.HISTOGRAM, SurveyForm.PERCENTILE)


class MatchValue(msgspec.Struct, frozen=True):
    """The value of a match: ``length``, ``duration``, or ``count`` or ``sum`` of a variable."""

    what: str
    variable: str | None = None
    attribute: str | None = None

    @property
    def name(self) -> str:
        """Return the name of its column."""
        return "_".join(part for part in (self.what, self.variable, self.attribute) if part)


class Survey(msgspec.Struct, frozen=True):
    """The survey of a query: how many matches, by what; ``written`` are the variables in order.

    ``fractions`` are those of PERCENTILE.
    """

    form: SurveyForm
    number: int = 0
    seed: int = 0
    value: MatchValue | None = None
    written: tuple[str, ...] = ()
    text: str = ""
    fractions: tuple[float, ...] = ()
