"""The unit of a time column: converts lengths of windows from microseconds to whole ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepheid.errors import Span
from cepheid.events.schema import EventSchema, ValueKind
from cepheid.events.temporal import DURATION_US_MAX
from cepheid.language.findings import Findings

if TYPE_CHECKING:
    from cepheid.patterns.scope import Source

TICKS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""The units of integer times, in nanoseconds."""


def tick_of(source: Source, schemas: Sequence[EventSchema | None]) -> int:
    """Compute the nanoseconds of a tick: integers declare a unit, other times are microseconds.

    Joined streams share one unit: if one has nanoseconds, both do.
    """
    if any(schema.in_nanoseconds(source.time) for schema in schemas if schema is not None):
        return TICKS_NS["ns"]
    kinds = {schema.kind(source.time) for schema in schemas if schema is not None}
    return TICKS_NS[source.time_unit if ValueKind.INTEGER in kinds else "us"]


def in_ticks(
    lengths: Sequence[int], tick_ns: int, source: Source, span: Span, findings: Findings
) -> list[int] | None:
    """Convert lengths to ticks; report fractions and overflows (E329)."""
    exact = [divmod(length * TICKS_NS["us"], tick_ns) for length in lengths]
    if any(rest for _, rest in exact):
        message = f"this length is not a multiple of the time unit of `{source.time}`"
        findings.add(
            "E329", message, span, f"times are in {_name(tick_ns)}: use a multiple of that unit"
        )
        return None
    if max(ticks for ticks, _ in exact) > DURATION_US_MAX:
        message = f"this length is more than 2^61 {_name(tick_ns)}, the unit of `{source.time}`"
        findings.add("E329", message, span, "use a shorter window, or a coarser unit of time")
        return None
    return [ticks for ticks, _ in exact]


def _name(tick_ns: int) -> str:
    return next(name for name, length in TICKS_NS.items() if length == tick_ns)
