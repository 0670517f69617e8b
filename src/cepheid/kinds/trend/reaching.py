"""Bound how far the matches of a query reach from their required symbols: in time, and in events.

Replay intervals need not be whole windows where conditions on times, or adjacent events, bound how
far a match can reach (Körber's thesis, section 3.4.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cepheid.errors import place_of
from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.kinds.trend.planning.contiguous import shape_of
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.language import tree
from cepheid.patterns.distances import BEYOND, Gap, Shape, between
from cepheid.patterns.time_limits import FIRST, LAST, UNBOUNDED, reach_of_symbols
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.plans.template import Place, Template
from cepheid.store.candidates import Stretches
from cepheid.store.chains import Chain, described
from cepheid.store.cost import SymbolCost
from cepheid.store.places import in_order
from cepheid.store.replay_intervals import common, merged
from cepheid.store.replay_plan import span_of
from cepheid.store.shortening import Bounds, cover_spans
from cepheid.store.snapshot import Cover, Interval, Snapshot

_NS_OF_US = 1000
_ROUND = 1000


def looks_outside(template: Template) -> bool:
    """Check whether a NOT without a deadline looks from a match to the ends of its window."""
    places = {guard.place for guard in template.guards if not guard.within}
    return bool(places & {Place.LEADING, Place.TRAILING})


def gap_of(plan: TrendPlan) -> int:
    """Compute how long a gap must be so that no match reaches across; UNBOUNDED for no length."""
    if plan.window.kind in (WindowKind.NONE, WindowKind.COUNT):
        return UNBOUNDED
    return min(plan.window.within + sum(reach_of(plan)), UNBOUNDED)


class Reaching:
    """The distances between the symbols of a chain and the ends of a match.

    Attributes
    ----------
    adjacent
        Whether the events of a match are adjacent events of the store, and their number is bounded.
    """

    def __init__(self, snapshot: Snapshot, plan: TrendPlan, chain: Chain) -> None:
        self._plan, self._chain = plan, chain
        self._names = [symbol.variables for symbol in chain.symbols]
        self._ticks_of_row = span_of(snapshot) / max(snapshot.manifest.rows, 1)
        alone = len(plan.patterns) == 1 and plan.window.kind is not WindowKind.COUNT
        # With longer histories, differences of times would leave 64 bits.
        found = alone and span_of(snapshot) < UNBOUNDED
        reach = reach_of_symbols(plan, self._names) if found else None
        self._reach = reach if reach is not None and reach.conditions else None
        self._shape: Shape | None = None
        if alone and _is_placed(plan) and in_order(snapshot):
            self._shape = shape_of(plan.patterns[0], self._names)
        self.adjacent = self._shape is not None

    def shape_of(self, places: Sequence[int]) -> Shape | None:
        """Compute the distances of some symbols in events; None if they are not adjacent."""
        names = [self._names[place] for place in places]
        return None if self._shape is None else shape_of(self._plan.patterns[0], names)

    def cover(self, places: Sequence[int], found: Sequence[Stretches]) -> Cover:
        """Compute the times that matches can reach from the candidates of some symbols."""
        everything = Cover.of(Interval())
        if self._reach is None:
            return everything
        if not self._reach.possible:
            none = np.zeros(0, np.int64)
            return merged(none, none)
        # The first events of all symbols, and the last ones: both are candidates.
        bounds = [self._bounds([2 * place + end for place in places]) for end in (2, 3)]
        covers = [cover_spans(found, own) for own in bounds]
        return common(*covers)

    def _bounds(self, events: Sequence[int]) -> list[Bounds]:
        assert self._reach is not None, "there are distances"
        found = []
        for place, event in enumerate(events):
            before, after = self._around(event)
            gap = self._reach.between(events[place - 1] if place else event, event)
            found.append(Bounds(before, after, Gap(*gap)))
        return found

    def _around(self, event: int) -> tuple[int, int]:
        """Compute the times before and after an event of a match that its replay needs."""
        assert self._reach is not None, "there are distances"
        places = {g.place for g in self._plan.patterns[0].guards if not g.within}
        window = self._plan.window
        within = UNBOUNDED if window.kind is WindowKind.NONE else window.within
        before = self._reach.between(FIRST, event).most
        after = self._reach.between(event, LAST).most
        return (
            max(before, within) if Place.LEADING in places else before,
            max(after, within) if Place.TRAILING in places else after,
        )

    def costs(self) -> list[list[SymbolCost]]:
        """Return the costs of the symbols with their distances from the ends of a match."""
        return [
            [cost._replace(before=before, after=after) for cost in own]
            for own, (before, after) in zip(
                self._chain.costs, map(self._expected, range(len(self._names))), strict=True
            )
        ]

    def _expected(self, place: int) -> tuple[int, int]:
        """Compute the distances of a symbol for estimates."""
        before = after = UNBOUNDED
        if self._reach is not None:
            around = [self._around(2 * place + end) for end in (2, 3)]
            before = min(own[0] for own in around)
            after = min(own[1] for own in around)
        if self._shape is not None and not looks_outside(self._plan.patterns[0]):
            gaps = self._rows_around(place)
            before, after = (
                min(ticks, int(rows * self._ticks_of_row) + 1)
                for ticks, rows in zip((before, after), gaps, strict=True)
            )
        return before, after

    def _rows_around(self, place: int) -> tuple[int, int]:
        assert self._shape is not None, "events are adjacent"
        before = between(self._shape, 0, place).most
        return before, between(self._shape, place + 1, len(self._shape.gaps) - 1).most

    def told(self, symbols: Sequence[str]) -> tuple[str, ...]:
        """Tell in words how far a match reaches from the symbols that are looked up, and why."""
        lines = []
        for place in range(len(self._names)):
            text = described(self._chain, [place])[0]
            if text not in symbols:
                continue
            name = " or ".join(self._names[place])
            if self._reach is not None and self._reach.possible:
                around = [self._around(2 * place + end) for end in (2, 3)]
                lines += self._line(name, min(a for a, _ in around), min(a for _, a in around))
            if self._shape is not None and max(self._rows_around(place)) < BEYOND:
                before, after = self._rows_around(place)
                lines.append(f"at most {before} events before {name}, {after} after it: adjacent")
        return tuple(lines)

    def _line(self, name: str, before: int, after: int) -> list[str]:
        window = self._plan.window
        longest = UNBOUNDED if window.kind is WindowKind.NONE else window.within - 1
        parts = [
            f"{self._length(ticks)} {side} {name}"
            for ticks, side in ((before, "before"), (after, "after"))
            if ticks < longest
        ]
        assert self._reach is not None, "there are distances"
        reasons = [
            f"`{format_expression(condition)}` at {place_of(self._plan.text, condition.span)}"
            for condition in dict.fromkeys(self._reach.conditions)
        ]
        return [f"{' and '.join(parts)}: {', '.join(reasons)}"] if parts else []

    def _length(self, ticks: int) -> str:
        """Format a length; one tick less than a round one is less than the round one."""
        if not ticks:
            return "nothing"
        less = (ticks + 1) % _ROUND == 0
        nanoseconds = (ticks + less) * self._plan.tick_ns
        whole = nanoseconds % _NS_OF_US == 0
        text = format_duration(nanoseconds // _NS_OF_US) if whole else f"{nanoseconds} nanoseconds"
        return f"less than {text}" if less else f"at most {text}"


def _is_placed(plan: TrendPlan) -> bool:
    """Check whether adjacent events of a match are adjacent events of the store.

    Events must be totally ordered: tied events would otherwise not break a match.
    """
    keys = plan.partition
    placed = plan.semantics is tree.Semantics.CONTIGUOUS and plan.ties is tree.Ties.ARRIVAL
    return placed and not (plan.tiebreak or keys.attributes or keys.partial)
