"""Draws random pipelines: every kind of stage over every kind of stream, one to four deep."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from cepheid.testing.strategies import choice

SECOND = 1_000_000
BASE = "events"


class Stream(NamedTuple):
    """A stream: its types in patterns, its numbers, whether it has the key, and a fixed order.

    ``edges`` says of what kind its columns `window_start` and `window_end` are, if it has them.
    """

    name: str
    types: tuple[str, ...]
    numbers: tuple[str, ...]
    keyed: bool = True
    ordered: bool = True
    edges: str = ""


class Drawn(NamedTuple):
    """A pipeline, and its base events."""

    text: str
    events: list[dict[str, Any]]


EVENTS = Stream(BASE, ("A", "B"), ("x", "z"))


@st.composite
def base_events(draw: st.DrawFn, count: int = 24) -> list[dict[str, Any]]:
    """Draw events in order, with ties, gaps and NULLs."""
    size = draw(st.integers(0, count))
    at, found = 0, []
    for _ in range(size):
        at += draw(choice([0, 1, 1, 2, 3, 9])) * SECOND
        found.append(
            {
                "ts": at,
                "type": draw(choice(["A", "B", "B", "C"])),
                "k": draw(choice(["p", "p", "q", None])),
                "x": draw(choice([0, 1, 2, 3, 4, None])),
                "z": draw(st.integers(0, 3)),
            }
        )
    return found


def window(draw: st.DrawFn, *, trailing: bool = False) -> str:
    """Draw a window of time."""
    slide = draw(st.integers(1, 4))
    within = slide * draw(st.integers(1, 3))
    if trailing and draw(st.booleans()):
        return f"WITHIN {within} s"
    return f"WITHIN {within} s SLIDE {slide} s"


class Stages:
    """Makes stages over the streams so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.streams = [EVENTS]

    def source(self, *, keyed: bool = False, ordered: bool = False) -> Stream:
        """Choose a stream, most often the newest."""
        fit = [s for s in self.streams if (s.keyed or not keyed) and (s.ordered or not ordered)]
        return fit[-1] if self.draw(st.booleans()) else self.draw(choice(fit))

    def number(self, stream: Stream) -> str:
        return self.draw(choice(stream.numbers))

    def add(self, name: str, place: int) -> str:
        """Draw the query of a stream, and make it known."""
        makers = [self.rows, self.windows, self.counted, self.joined, self.trends, self.matches]
        makers += [self.situations, self.funnel, self.row_patterns]
        text, stream = self.draw(choice(makers))(name, place)
        self.streams.append(stream)
        return text

    def rows(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source()
        number, limit = self.number(source), self.draw(st.integers(-1, 2))
        key = "k, " if source.keyed else ""
        text = f"SELECT {key}{number} + {n} AS v{n} FROM {source.name} WHERE {number} > {limit}"
        return text, Stream(name, (name,), (f"v{n}",), source.keyed, source.ordered)

    def windows(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source()
        keyed = source.keyed and self.draw(st.integers(0, 3)) > 0
        slide = self.draw(st.integers(1, 4))
        text = f"SELECT {'k, ' * keyed}SUM({self.number(source)}) AS v{n}, COUNT(*) AS w{n} "
        text += f"FROM {source.name} {'GROUP BY k ' * keyed}WINDOW {slide * 2} s"
        text += self.draw(choice(["", f" SLIDE {slide} s", f" SLIDE {slide * 3} s"]))
        return text, Stream(name, (name,), (f"v{n}", f"w{n}"), keyed, edges="times")

    def counted(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source(ordered=True)
        keyed = source.keyed and self.draw(st.integers(0, 3)) > 0
        text = f"SELECT {'k, ' * keyed}SUM({self.number(source)}) AS v{n} FROM {source.name} "
        text += f"{'GROUP BY k ' * keyed}WINDOW {self.draw(st.integers(1, 3))} EVENTS SLIDE "
        return f"{text}{self.draw(st.integers(1, 3))} EVENTS", Stream(
            name, (name,), (f"v{n}",), keyed, edges="numbers"
        )

    def joined(self, name: str, n: int) -> tuple[str, Stream]:
        left, right = self.source(keyed=True, ordered=True), self.source(keyed=True, ordered=True)
        extent = self.draw(choice(["2 s", "4 s", "2 EVENTS"]))
        text = f"SELECT a.k AS k, a.{self.number(left)} AS v{n}, b.{self.number(right)} AS w{n} "
        text += f"FROM {left.name} a JOIN {right.name} b ON a.k = b.k WINDOW {extent}"
        return text, Stream(name, (name,), (f"v{n}", f"w{n}"))

    def pattern(self) -> tuple[str, Stream, Stream, bool]:
        """Draw a pattern of two variables, and the streams that they are of."""
        one, two = self.source(), self.source()
        if {one.edges, two.edges} == {"times", "numbers"}:
            two = one  # Columns of one name have one type (E355).
        keyed = one.keyed and two.keyed and self.draw(st.integers(0, 3)) > 0
        first, second = (self.draw(choice(s.types)) for s in (one, two))
        forms = ["SEQ({0} x, {1} y)", "SEQ({0} x+, {1} y)", "SEQ({0} x, NOT C c, {1} y)"]
        forms += ["SEQ({0} x, {1} y, NOT C c)", "SEQ(NOT C c, {0} x, {1} y)"]
        forms += ["SEQ({0} x, {1} y, NOT C c WITHIN 2 s)", "SEQ({0} x, NOT C c WITHIN 1 s, {1} y)"]
        forms += ["SEQ(NOT C c WITHIN 2 s, {0} x, {1} y)"]
        return self.draw(choice(forms)).format(first, second), one, two, keyed

    def conditions(self, one: Stream, two: Stream, *, keyed: bool) -> str:
        found = ["[k]"] * keyed
        if self.draw(st.booleans()):
            found.append(f"x.{self.number(one)} <= NEXT(y).{self.number(two)}")
        return f"WHERE {' AND '.join(found)} " if found else ""

    def trends(self, name: str, n: int) -> tuple[str, Stream]:
        pattern, one, two, keyed = self.pattern()
        text = f"RETURN {'k, ' * keyed}COUNT(*) AS v{n}, SUM(x.{self.number(one)}) AS w{n} "
        text += f"PATTERN {pattern} {self.conditions(one, two, keyed=keyed)}"
        text += f"{'GROUP-BY k ' * keyed}{window(self.draw, trailing=True)}"
        text += self.draw(choice(["", "", " SEMANTICS contiguous", " SEMANTICS next"]))
        return text, Stream(name, (name,), (f"v{n}", f"w{n}"), keyed, edges="times")

    def matches(self, name: str, n: int) -> tuple[str, Stream]:
        pattern, one, two, keyed = self.pattern()
        pattern = pattern.replace("+", "")
        text = f"RETURN {'k, ' * keyed}x.{self.number(one)} AS v{n}, y.{self.number(two)} AS w{n} "
        text += f"PATTERN {pattern} {self.conditions(one, two, keyed=keyed)}"
        text += window(self.draw, trailing=True)
        if not pattern.startswith("SEQ(NOT") and not pattern.endswith("NOT C c)"):
            text += self.draw(choice(["", "", " AFTER MATCH SKIP PAST LAST"]))
        return text, Stream(name, (name,), (f"v{n}", f"w{n}"), keyed, ordered=False, edges="times")

    def situations(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source(ordered=True)
        number, limit = self.number(source), self.draw(st.integers(0, 2))
        by = "PARTITION BY k " if source.keyed else ""
        text = f"FROM {source.name} {by}DEFINE HI AS {number} > {limit}, LO AS {number} <= {limit} "
        text += self.draw(
            choice(
                [
                    f"PATTERN HI meets LO WITHIN 9 s RETURN COUNT(HI) AS v{n}",
                    f"PATTERN LO before;meets HI DETECTED WITHIN 9 s RETURN COUNT(LO) AS v{n}",
                    f"SITUATIONS HI, LO RETURN COUNT(HI) AS v{n}",
                ]
            )
        )
        return text, Stream(name, (name,), (f"v{n}",), source.keyed)

    def funnel(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source(keyed=True)
        one, two = (self.draw(choice(source.types)) for _ in range(2))
        text = f"RETURN FUNNEL(k) PATTERN SEQ({one} x, {two} y) {window(self.draw)}"
        return text, Stream(name, (name,), ("step", "keys"), keyed=False, edges="times")

    def row_patterns(self, name: str, n: int) -> tuple[str, Stream]:
        source = self.source(ordered=True)
        number, limit = self.number(source), self.draw(st.integers(0, 2))
        keyed = source.keyed and self.draw(st.integers(0, 3)) > 0
        listed = self.draw(st.booleans())
        shown = "*" if not listed and self.draw(st.booleans()) else f"{'k, ' * keyed}v{n}, w{n}"
        pattern = self.draw(choice(["A B", "A B+ C?", "A+? B", "A B* C", "A (B | C)+"]))
        text = f"SELECT {shown} FROM {source.name} MATCH_RECOGNIZE ({'PARTITION BY k ' * keyed}"
        text += f"ORDER BY ts MEASURES LAST({number}) AS v{n}, COUNT(*) AS w{n} "
        text += "ALL ROWS PER MATCH " * listed
        text += self.draw(choice(["", "AFTER MATCH SKIP TO NEXT ROW "]))
        text += f"PATTERN ({pattern}) WITHIN {self.draw(st.integers(1, 8)) * SECOND} "
        defined = f"A AS {number} > {limit}, B AS {number} >= PREV({number})"
        text += f"DEFINE {defined}{f', C AS {number} < A.{number}' * ('C' in pattern)})"
        return text, Stream(name, (name,), (f"v{n}", f"w{n}"), keyed, ordered=False)


@st.composite
def pipelines(draw: st.DrawFn) -> Drawn:
    """Draw a pipeline with one to four streams below its result, and its events."""
    stages = Stages(draw)
    depth = draw(st.integers(1, 4))
    parts = [f"CREATE STREAM S{n} AS {stages.add(f'S{n}', n)};" for n in range(1, depth + 1)]
    return Drawn("\n".join([*parts, stages.add("", depth + 1)]), draw(base_events()))
