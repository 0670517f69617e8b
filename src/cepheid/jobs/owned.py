"""Which part of the time a task answers for."""

from __future__ import annotations

from typing import NamedTuple


class Owned(NamedTuple):
    """A range of time [begin, end); None has no end.

    Matches are listed whose windows start in it or, without SLIDE, end in it.
    """

    begin: int | None = None
    end: int | None = None


EVERYTHING = Owned()
