"""Funnels by brute force: every start of every partition is followed on its own (§12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression

Event = Mapping[str, object]
Row = dict[str, object]
Chain = list[int]
"""The times of the steps that a chain has reached."""


def evaluate_funnel(
    query: tree.FunnelQuery, events: Sequence[Event], time: str, kind: str
) -> list[Row]:
    """Evaluate a funnel over events in the order of time; durations are whole microseconds."""
    return _Funnel(query, events, time, kind).rows()


class _Funnel:
    """A funnel over a list of events."""

    def __init__(
        self, query: tree.FunnelQuery, events: Sequence[Event], time: str, kind: str
    ) -> None:
        self.query, self.events, self.kind = query, events, kind
        self.times = [int(str(event[time])) for event in events]
        self.typed = any(event.get(kind) is not None for event in events)
        assert query.returns is not None
        call = query.returns.items[0].expression
        assert isinstance(call, tree.Call)
        self.counted = [a.text for a in call.arguments if isinstance(a, tree.Word)]
        self.modes = {a.value for a in call.arguments if isinstance(a, tree.Literal)}
        pattern = query.pattern
        parts = pattern.parts if isinstance(pattern, tree.Sequence) else (pattern,)
        self.steps = [part for part in parts if isinstance(part, tree.EventPattern)]
        self.group_by = [name.text for name in query.group_by]
        self.arrival = query.ties is not None and query.ties.ties is tree.Ties.ARRIVAL

    def conditions(self) -> Iterator[tree.Expression]:
        waiting = [self.query.where] if self.query.where is not None else []
        while waiting:
            condition = waiting.pop()
            if isinstance(condition, tree.Logical) and condition.operator == "AND":
                waiting += condition.operands
            else:
                yield condition

    def shared(self) -> list[str]:
        """Collect the attributes that all events of a chain share (§12.1)."""
        names = [*self.counted, *self.group_by]
        for condition in self.conditions():
            if isinstance(condition, tree.Equivalence):
                names += [item.attribute.text for item in condition.items]
        return list(dict.fromkeys(names))

    def fits(self, i: int, step: tree.EventPattern) -> bool:
        event = self.events[i]
        own = step.event_type.text
        if self.typed and own != tree.ANY_TYPE and event.get(self.kind) != own:
            return False

        def lookup(leaf: Leaf) -> Value:
            assert isinstance(leaf, tree.Attribute), "conditions are about one event"
            value = event.get(leaf.attribute.text)
            assert value is None or isinstance(value, bool | int | float | str)
            return value

        for condition in self.conditions():
            if isinstance(condition, tree.Equivalence):
                continue
            names = {n.variable.text for n in tree.walk(condition) if isinstance(n, tree.Attribute)}
            if names <= {step.variable.text} and evaluate_expression(condition, lookup) is not True:
                return False
        return True

    def before(self, i: int, j: int) -> bool:
        return i < j if self.arrival else self.times[i] < self.times[j]

    def chain(self, partition: list[int], first: int, longest: int | None) -> list[int]:
        """Follow the chain that begins with an event (§12.2); return its events."""
        taken = [first]
        while len(taken) < len(self.steps):
            last = taken[-1]
            after = [j for j in partition if self.before(last, j)]
            later = [j for j in after if self.fits(j, self.steps[len(taken)])]
            if not later or (
                longest is not None and self.times[later[0]] - self.times[first] > longest
            ):
                break
            between = [j for j in after if self.before(j, later[0])]
            if any(self.ends(j, len(taken)) for j in between):
                break
            taken.append(later[0])
        return taken

    def ends(self, i: int, reached: int) -> bool:
        """Decide whether an event ends a chain that has reached some steps, by its modes."""
        so_far = any(self.fits(i, step) for step in self.steps[:reached])
        following = self.fits(i, self.steps[reached])
        if "strict_order" in self.modes and not so_far and not following:
            return True
        return "strict_deduplication" in self.modes and so_far

    def best(self, chosen: list[int], longest: int | None) -> dict[tuple[object, ...], list[Chain]]:
        """Find the chain of every key, by group (§12.3)."""
        shared = self.shared()
        partitions: dict[tuple[object, ...], list[int]] = {}
        for i in chosen:
            values = tuple(self.events[i].get(name) for name in shared)
            if None not in values:
                partitions.setdefault(values, []).append(i)
        keys: dict[tuple[object, ...], dict[tuple[object, ...], list[list[int]]]] = {}
        for values, partition in partitions.items():
            named = dict(zip(shared, values, strict=True))
            group = tuple(named[name] for name in self.group_by)
            key = tuple(named[name] for name in self.counted)
            for i in partition:
                if self.fits(i, self.steps[0]):
                    chain = self.chain(partition, i, longest)
                    keys.setdefault(group, {}).setdefault(key, []).append(chain)

        def rank(chain: list[int]) -> tuple[int, int, int]:
            """Order chains: the longest, then by their last event, then by their first (§12.3)."""
            ends = chain if self.arrival else [self.times[i] for i in chain]
            return -len(chain), ends[-1], -ends[0]

        return {
            group: [[self.times[i] for i in min(chains, key=rank)] for chains in each.values()]
            for group, each in keys.items()
        }

    def rows(self) -> list[Row]:
        window = self.query.window
        everything = list(range(len(self.events)))
        if window is None or window.slide is None:
            longest = None
            if window is not None:
                assert isinstance(window.within, tree.Duration)
                longest = window.within.microseconds
            best = self.best(everything, longest)
            if not self.group_by:
                best = best or {(): []}
            return self.tables(best, {})
        assert isinstance(window.within, tree.Duration)
        assert isinstance(window.slide, tree.Duration)
        size, slide = window.within.microseconds, window.slide.microseconds
        rows: list[Row] = []
        if not self.times:
            return rows
        for start in range(
            (self.times[0] - size) // slide * slide + slide, self.times[-1] + 1, slide
        ):
            chosen = [i for i in everything if start <= self.times[i] < start + size]
            head: Row = {"window_start": start, "window_end": start + size}
            rows += self.tables(self.best(chosen, None), head)
        return rows

    def tables(self, best: dict[tuple[object, ...], list[Chain]], window: Row) -> list[Row]:
        """Build the rows of every group (§12.4)."""
        rows = []
        for group in sorted(best, key=lambda g: [(str(type(v)), v) for v in g]):
            chains = best[group]
            head = dict(zip(self.group_by, group, strict=True)) | window
            counts = [sum(len(c) > k for c in chains) for k in range(len(self.steps))]
            for k, step in enumerate(self.steps):
                took = sorted(c[k] - c[k - 1] for c in chains if len(c) > k) if k else []
                rows.append(
                    head
                    | {
                        "step": k + 1,
                        "variable": step.variable.text,
                        "keys": counts[k],
                        "share_of_first": _share(counts[k], counts[0]),
                        "share_of_previous": _share(counts[k], counts[max(k - 1, 0)]),
                        "median_time": _nearest(took, Fraction(1, 2)),
                        "p90_time": _nearest(took, Fraction(9, 10)),
                    }
                )
        return rows


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _nearest(values: list[int], share: Fraction) -> int | None:
    """Find the least value that at least this share of all values does not exceed."""
    for number, value in enumerate(values, 1):
        if number >= share * len(values):
            return value
    return None


def funnel_columns(query: tree.FunnelQuery) -> list[str]:
    """Name the columns of a funnel's rows, in order."""
    names = [name.text for name in query.group_by]
    if query.window is not None and query.window.slide is not None:
        names += ["window_start", "window_end"]
    return [
        *names,
        "step",
        "variable",
        "keys",
        "share_of_first",
        "share_of_previous",
        "median_time",
        "p90_time",
    ]
