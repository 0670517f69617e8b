"""Count the work of a run: events read and kept, state, rows, seconds and bytes."""

from __future__ import annotations

import msgspec

from cepheid.jobs.explain_parts import Section, draw_sections
from cepheid.jobs.why import amount, number


class Analysis(msgspec.Struct, frozen=True):
    """The work of one run.

    ``kept`` are steps that events pass, each with the number that is left; ``reads`` is what was
    read of stores; ``partial`` are partial results, and ``state`` is what was kept at the end of
    the events, in words. A number that a place does not have is None.
    """

    place: str
    events: int | None
    kept: tuple[tuple[str, int], ...]
    event_bytes: int | None
    reads: tuple[str, ...]
    partial: tuple[str, ...]
    state: tuple[str, ...]
    rows: tuple[tuple[str, int], ...]
    row_bytes: int | None
    seconds: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        return draw_sections(f"analysis  {self.place}", self.sections())

    def sections(self) -> list[Section]:
        """Describe all numbers in words."""
        found: list[Section] = []
        if self.events is not None:
            size = "" if self.event_bytes is None else f", {self.event_bytes:,} bytes"
            kept = [f"{number(count)} {text}" for text, count in self.kept]
            found.append(("events", [f"{number(self.events)} read{size}", *kept]))
        if self.reads:
            found.append(("reads", list(self.reads)))
        if self.partial:
            found.append(("partial", list(self.partial)))
        if self.state:
            found.append(("state", list(self.state)))
        size = "" if self.row_bytes is None else f", {self.row_bytes:,} bytes"
        total = sum(count for _, count in self.rows)
        single = len(self.rows) == 1 and not self.rows[0][0]
        each = [] if single else [f"{name}: {number(count)}" for name, count in self.rows]
        found.append(("rows", [f"{amount(total, 'row')}{size}", *each]))
        found.append(("seconds", [", ".join(f"{took:.3f} {name}" for name, took in self.seconds)]))
        return found


LIVE = "live queries have such numbers in their progress, batch by batch"
