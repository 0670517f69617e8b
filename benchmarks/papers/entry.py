"""One figure or table of a paper: what the paper says, how we measure it, how the two compare.

A measurement is a list of points, so that the page, the charts and the checks all read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

OURS = "Cepheid"


class Point(msgspec.Struct, frozen=True):
    """One place of a curve; `y` is missing where a method ran into its limit."""

    series: str
    x: int | float | str
    y: float | None
    panel: str = ""


class Found(msgspec.Struct, frozen=True):
    """A measurement: its points, the data that they are of, and what a reader must know."""

    points: tuple[Point, ...]
    data: str
    note: str = ""

    def at(self, series: str, x: float | str, panel: str = "") -> float:
        """Return the height of a curve at a place.

        Raises
        ------
        KeyError
            If it was not measured there.
        """
        for point in self.points:
            is_there = point.series == series and point.x == x and point.panel == panel
            if is_there and point.y is not None:
                return point.y
        raise KeyError(series, x, panel)

    def curve(self, series: str, panel: str = "") -> dict[float | str, float]:
        """Return the places of a curve that were measured."""
        return {
            point.x: point.y
            for point in self.points
            if point.series == series and point.panel == panel and point.y is not None
        }

    def last(self, series: str, panel: str = "") -> float | str:
        """Return the last place that a method came to."""
        return list(self.curve(series, panel))[-1]


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a figure: what the axes are. Units: s, times, %, bytes, M/s or none."""

    key: str
    title: str
    x: str
    unit: str = "s"
    is_log: bool = True


class State(Enum):
    """How a claim of a paper stands here, as the page says it."""

    HOLDS = "Holds"
    FAILS = "**Does not hold**"
    OPEN = "Open"
    """It was not tested here."""
    SHOWN = "Shown"
    """It is a figure of ours, and no claim of the paper."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether what the paper found holds here, with our figures."""

    holds: bool | State
    text: str

    @property
    def state(self) -> State:
        """Return how the claim stands."""
        if isinstance(self.holds, State):
            return self.holds
        return State.HOLDS if self.holds else State.FAILS


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure or a table of a paper.

    Attributes
    ----------
    key
        Its name on the command line: ``greta-15``.
    paper, here
        What the paper measured and found, and what is measured here.
    measure
        Makes the measurement; none where `missing` says why there is none.
    compare
        Says of each claim of the paper whether it holds.
    machine, day
        Where and when it was measured, if not by this command.
    """

    key: str
    title: str
    paper: str
    here: str
    panels: tuple[Panel, ...] = ()
    measure: Callable[[], Found] | None = None
    compare: Callable[[Found], Sequence[Verdict]] = lambda _: ()
    missing: str = ""
    machine: str = ""
    day: str = ""

    @property
    def section(self) -> str:
        """Return the part of the page: greta, aseq, rcep, cogra or a chapter of the thesis."""
        name, _, number = self.key.partition("-")
        return f"thesis-{number[0]}" if name == "thesis" else name


def times(ratio: float) -> str:
    """Return a ratio in words."""
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def growth(found: Found, series: str, panel: str = "") -> tuple[float, float]:
    """Return by which factors the place and the height grow from a curve's first to last place."""
    curve = found.curve(series, panel)
    (first, low), *_, (last, high) = curve.items()
    return float(last) / float(first), high / low
