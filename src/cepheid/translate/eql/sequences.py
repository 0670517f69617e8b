"""``sequence`` and ``join`` of EQL in, a pattern of Cepheid out.

A sequence has one pending match for each stage and key, and a later one takes its place: that is
``SEMANTICS next`` with ``AFTER MATCH SKIP TO LATEST`` (docs/semantics.md §14.6). A join takes the
first event of each part since it was complete the last time, in any order: ``SKIP PAST LAST``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from cepheid.expressions.format import format_name
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.eql.keys import CATEGORY, KEYED, Keys
from cepheid.translate.translated import CannotTranslateError

STAGES_MAX = 60
"""Stages of a sequence: a pattern has at most 63 variables."""

JOINED_MAX = 4
"""Parts of a join: each order of them is an alternative."""


def write_several(several: tree.Several, pipes: Sequence[tree.Pipe], writer: Writer) -> str:
    """Write a sequence or a join with its pipes."""
    if several.kind == "sample":
        message = "`sample` gives some of the events that have a key, which is not determined"
        raise CannotTranslateError(message)
    return _Several(several, writer).text(pipes)


class _Several:
    """Writes one sequence or join: stages are e1, e2 and so on, absent events n1, n2."""

    def __init__(self, several: tree.Several, writer: Writer) -> None:
        self._several, self._writer = several, writer
        self._stages = list(_expanded(several.stages))
        self._present = [stage for stage in self._stages if not stage.missing]
        self._tests: list[str] = []
        self._absent = 0
        if not self._present or len(self._stages) > STAGES_MAX:
            message = f"a sequence has 1 to {STAGES_MAX} stages"
            raise CannotTranslateError(message)
        self._names = [f"e{n}" for n in range(1, len(self._present) + 1)]
        self._keys = Keys(several, self._present, self._others(), writer)
        self._keyed = self._keys.stream
        if self._keyed and writer.lists_categories:
            message = "keys that are computed over events with lists of categories have no "
            raise CannotTranslateError(message + "counterpart")
        if self._keyed:
            self._writer = writer.over_stream(CATEGORY)

    def text(self, pipes: Sequence[tree.Pipe]) -> str:
        """Write the query."""
        joined = self._several.kind == "join"
        pattern = self._join() if joined else self._sequence()
        for name, stage in zip(self._names, self._present, strict=True):
            self._tests.append(self._condition(name, stage))
        limit = self._pipes(pipes)
        tests = [*self._keys.tests(self._names), *self._tests]
        kept = [test for test in tests if test != "TRUE"]
        lines = [f"{self._keyed}RETURN MATCHES", f"PATTERN {pattern}"]
        lines += [f"WHERE {' AND '.join(kept)}"] if kept else []
        lines += [] if joined else [f"SEMANTICS next{self._forks()}"]
        span = self._several.maxspan_us
        # A span may be as long as the limit, a window is shorter than its length.
        lines += [f"WITHIN {span + 1} us"] if span is not None and len(self._present) > 1 else []
        lines += ["TIES arrival"]
        if len(self._present) > 1:
            lines.append(f"AFTER MATCH SKIP {'PAST LAST' if joined else 'TO LATEST'}")
        return "\n".join([*lines, limit])

    def _others(self) -> list[tree.Stage]:
        """List the stages of absent events, and ``until``."""
        until = [self._several.until] if self._several.until else []
        return [stage for stage in self._stages if stage.missing] + until

    def _forks(self) -> str:
        """Let matches that wait for a stage with ``fork`` go on waiting when one goes on."""
        if any(stage.fork and (stage.runs > 1 or stage.missing) for stage in self._several.stages):
            message = "`fork` of a stage that comes several times, or must be missing, has no "
            raise CannotTranslateError(message + "counterpart")
        links = [
            f", {self._names[place - 1]} TO {self._names[place]} any"
            for place, stage in enumerate(self._present)
            if stage.fork and place
        ]
        return "".join(links)

    def _type(self, stage: tree.Stage) -> str:
        if self._keyed:
            return KEYED
        if self._writer.lists_categories or not stage.events.category:
            return "ANY"
        return format_name(stage.events.category)

    def _condition(self, name: str, stage: tree.Stage) -> str:
        """Write the condition on an event of a stage; in a stream of keys also its category."""
        writer = self._writer.of(name)
        if self._keyed or self._writer.lists_categories:
            return writer.events(stage.events)
        return writer.condition(stage.events.condition)

    # Patterns ----------------------------------------------------------------------------

    def _sequence(self) -> str:
        gaps: list[list[str]] = [[]]
        for stage in self._stages:
            if not stage.missing:
                gaps.append([])
                continue
            edge = len(gaps) == 1 or len(gaps) > len(self._present)
            gaps[-1].append(f"{self._not(stage)}{self._deadline() if edge else ''}")
        if gaps[0] and gaps[-1]:
            message = "events that must be missing both before and after an event, within one span "
            raise CannotTranslateError(message + "around it, have no counterpart")
        if self._several.until is not None:
            for gap in gaps[1:-1]:
                gap.append(self._not(self._several.until))
            self._leave_out(self._several.until)
        named = zip(self._names, self._present, strict=True)
        events = [f"{self._type(stage)} {name}" for name, stage in named]
        parts = [*gaps[0]]
        for event, gap in zip(events, gaps[1:], strict=True):
            parts += [event, *gap]
        return parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"

    def _deadline(self) -> str:
        """Limit the time in which an event before or after all others must be missing."""
        span = self._several.maxspan_us
        if span is None or len(self._present) > 1:
            message = "a missing event before or after several others, or without maxspan, has no "
            raise CannotTranslateError(message + "counterpart")
        return f" WITHIN {span + 1} us"

    def _not(self, stage: tree.Stage) -> str:
        self._absent += 1
        name = f"n{self._absent}"
        self._tests.append(self._condition(name, stage))
        return f"NOT {self._type(stage)} {name}"

    def _leave_out(self, until: tree.Stage) -> None:
        """Let no event that ends a sequence go on with it, where one could do both.

        Where the stages look at an event first, the last one completes the sequence before it ends.
        """
        pairs = list(zip(self._names, self._present, strict=True))
        for name, stage in pairs[1:] if self._writer.ends_first else pairs[1:-1]:
            if self._may_be_both(stage.events, until.events):
                tested = self._writer.of(name).events(until.events)
                self._tests.append(f"(NOT COALESCE({tested}, FALSE))")
        if not self._writer.ends_first and self._may_be_both(pairs[0][1].events, until.events):
            note = "an event that meets `until` and the first stage begins a sequence"
            self._writer.notes[note] = None

    def _join(self) -> str:
        if len(self._present) > JOINED_MAX or len(self._present) < len(self._stages):
            message = f"a `join` of more than {JOINED_MAX} parts, or with `!`, has no counterpart"
            raise CannotTranslateError(message)
        until = self._several.until
        pairs = list(zip(self._names, self._present, strict=True))
        for one, two in ((a, b) for n, a in enumerate(pairs) for b in pairs[n + 1 :]):
            if self._may_be_both(one[1].events, two[1].events):
                self._writer.notes["an event that fits two parts of the join counts for one"] = None
        if until is not None and any(
            self._may_be_both(one.events, until.events) for _, one in pairs
        ):
            note = "an event that fits `until` and a part of the join is taken by the part"
            self._writer.notes[note] = None
        orders = []
        for order in permutations(pairs):
            parts: list[str] = []
            for name, stage in order:
                parts += [self._not(until)] if until is not None and parts else []
                parts.append(f"{self._type(stage)} {name}")
            orders.append(f"SEQ({', '.join(parts)})" if len(parts) > 1 else parts[0])
        return " OR ".join(orders)

    def _may_be_both(self, one: tree.Events, two: tree.Events) -> bool:
        """Check whether one event could be of both: with one category it is not of two."""
        if self._writer.lists_categories or not one.category or not two.category:
            return True
        return one.category == two.category

    # Pipes -------------------------------------------------------------------------------

    def _pipes(self, pipes: Sequence[tree.Pipe]) -> str:
        """Write pipes: conditions on the last event, and a limit at the end.

        Conditions on whole matches come before the choice of the latest (§14.1). That makes no
        difference to those on the last event, which all matches have that are chosen from.
        """
        for place, pipe in enumerate(pipes):
            if pipe.name == "filter" and len(pipe.arguments) == 1 and self._several.kind != "join":
                last = self._writer.of_match(len(self._names) - 1, f"FIRST({self._names[-1]})")
                self._tests.append(last.condition(pipe.arguments[0]))
            elif pipe.name == "head" and place == len(pipes) - 1:
                return f"LIMIT {pipe.count()}"
            else:
                message = f"the pipe `{pipe.name}` after a {self._several.kind} has no counterpart"
                raise CannotTranslateError(message)
        return ""


def _expanded(stages: Sequence[tree.Stage]) -> Iterator[tree.Stage]:
    """Write out the stages that come several times."""
    for stage in stages:
        if not 1 <= stage.runs <= STAGES_MAX:
            message = f"a stage comes 1 to {STAGES_MAX} times"
            raise CannotTranslateError(message)
        yield from [stage] * stage.runs
