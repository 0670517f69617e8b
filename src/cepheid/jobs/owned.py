"""The time range that a task owns."""

from __future__ import annotations

from typing import NamedTuple


class Owned(NamedTuple):
    """A range of time [begin, end); None is unbounded.

    The task lists the matches whose windows start in it or, without SLIDE, end in it.
    """

    begin: int | None = None
    end: int | None = None


EVERYTHING = Owned()
