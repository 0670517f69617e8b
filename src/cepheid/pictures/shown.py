"""A result with its pictures: the answer of ``q.show(events)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from cepheid.errors import DataError
from cepheid.options import is_frame
from cepheid.pictures import results
from cepheid.pictures.dots import Lanes
from cepheid.pictures.picture import Picture
from cepheid.pictures.sweeps import Swept, swept_of
from cepheid.plans.plan import Plan


class Shown:
    """The result of a query and its pictures; a notebook shows the one that tells most.

    Attributes
    ----------
    result
        The rows, as ``run`` returns them.
    """

    def __init__(
        self,
        result: Any,
        events: object,
        lanes: Lanes,
        time_unit: str,
        swept: Sequence[Swept] = (),
    ) -> None:
        self.result = result
        self._events = events
        self._lanes = lanes
        self._unit = time_unit
        self._swept = swept

    def chart(self) -> Picture:
        """Draw numbers: windows as lines, groups as bars, a sweep along its parameters."""
        return results.swept_chart(self.result, self._lanes, self._unit, self._swept)

    def timeline(self, by: Iterable[str] | None = None) -> Picture:
        """Draw matches, situations, windows and blame on a timeline, with the events as dots.

        Parameters
        ----------
        by
            The attributes that lanes are made of; those that partition the query by default.
        """
        chosen = self._lanes.by if by is None else tuple(by)
        return results.timeline(
            self.result, self._events, by=chosen, time=self._lanes.time, type=self._lanes.type,
            time_unit=self._unit,
        )  # fmt: skip

    def funnel(self) -> Picture:
        """Draw the steps of a funnel."""
        return results.funnel(self.result)

    def __repr__(self) -> str:
        return f"Shown\n{self.result!r}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Show the picture that tells most; a result that cannot be drawn as text."""
        try:
            best = results.best(self.result, self._lanes, self._unit, self._events, self._swept)
        except DataError:
            return {"text/plain": repr(self)}
        return best._repr_mimebundle_(include, exclude)


def shown(plan: Plan, result: Any, events: object, time_unit: str) -> Shown:
    """Combine a result with the events that can be drawn beside it: those of this process."""
    drawable = events if isinstance(events, str | pa.Table | list) or is_frame(events) else None
    return Shown(result, drawable, results.lanes_of(plan), time_unit, swept_of(plan))
