"""Plan the windows from WITHIN and SLIDE (§6)."""

from __future__ import annotations

import math

import msgspec

from cepheid.errors import place_of
from cepheid.events.temporal import format_duration
from cepheid.jobs.ticks import in_ticks, tick_of
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Source
from cepheid.plans.plan import WindowKind, WindowPlan

PANES_MAX = 1_000_000
"""Panes of a window; a result sums them."""


def plan_window(query: tree.Query, text: str, findings: Findings, source: Source) -> WindowPlan:
    """Plan how the stream is split into windows; report invalid lengths."""
    window, emit = query.window, query.emit_on_expiry
    plan = WindowPlan(WindowKind.NONE, reason="without WITHIN the whole stream is one window")
    if window is not None:
        _check(window, findings)
        place = place_of(text, window.span)
        plan = _plan(window, f"WITHIN at {place}", emit_on_expiry=emit is not None)
        plan = _in_ticks(plan, window, source, findings)
    if emit is not None and plan.kind is not WindowKind.TRAILING:
        helps = "leave it out: windows with `SLIDE` report when they close"
        if window is None:
            helps = "add a window: `WITHIN 10 minutes`; without one, no match expires"
        message = "`EMIT ON EXPIRY` needs `WITHIN` in time and no `SLIDE`"
        findings.add("E316", message, emit.span, helps)
    return plan if query.emit_early is None else _plan_early(query.emit_early, plan, findings)


def _plan_early(emit: tree.Literal, plan: WindowPlan, findings: Findings) -> WindowPlan:
    """Plan a live query that reports open windows early (§6.7)."""
    if plan.kind in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return msgspec.structs.replace(plan, emit_early=True)
    helps = {
        WindowKind.NONE: "add windows: `WITHIN 10 minutes SLIDE 10 minutes`",
        WindowKind.TRAILING: "leave it out: `WITHIN` without `SLIDE` reports whenever a match ends",
    }.get(plan.kind, "leave it out: windows counted in events report when they are full")
    message = "`EMIT EARLY` needs `WITHIN` and `SLIDE` in time"
    findings.add("E328", message, emit.span, helps)
    return plan


def _check(window: tree.Window, findings: Findings) -> None:
    within, slide = window.within, window.slide
    for extent in (within, slide):
        if extent is not None and _length(extent) == 0:
            message = "a window cannot have the length zero"
            findings.add("E315", message, extent.span, "write a length of one or more")
    if slide is None:
        if isinstance(within, tree.EventCount):
            findings.add(
                "E307",
                "a window counted in events needs `SLIDE`",
                window.span,
                f"write `WITHIN {within.count} EVENTS SLIDE 1 EVENT`",
            )
        return
    if type(within) is not type(slide):
        message = "`WITHIN` and `SLIDE` measure different things, time and events"
        findings.add("E306", message, window.span, "give both in time or both in events")
    elif _length(slide) > _length(within):
        gap = _text(slide, _length(slide) - _length(within))
        findings.add(
            "E305",
            "`SLIDE` is longer than `WITHIN`",
            slide.span,
            f"use `SLIDE {_text(within, _length(within))}` or less",
            label=f"{gap} of every {_text(slide, _length(slide))} would fall in no window",
        )
    else:
        _check_panes(window, _length(within), _length(slide), findings)


def _check_panes(window: tree.Window, within: int, slide: int, findings: Findings) -> None:
    """Report windows with too many panes: every pane costs state and work."""
    pane_count = within // math.gcd(within, slide) if within else 0
    if pane_count <= PANES_MAX:
        return
    most = next(count for count in range(PANES_MAX, 0, -1) if within % count == 0)
    findings.add(
        "E323",
        f"this cuts every window into {pane_count:,} panes, more than the maximum of {PANES_MAX:,}",
        window.span,
        f"use `SLIDE {_text(window.within, within // most)}`, or a longer one that divides "
        "`WITHIN`",
        label="the length of a pane is the greatest common divisor of `WITHIN` and `SLIDE`",
    )


def _length(extent: tree.Duration | tree.EventCount) -> int:
    return extent.microseconds if isinstance(extent, tree.Duration) else extent.count


def _text(extent: tree.Duration | tree.EventCount, length: int) -> str:
    if isinstance(extent, tree.Duration):
        return format_duration(length)
    return f"{length} EVENT{'' if length == 1 else 'S'}"


def _plan(window: tree.Window, place: str, *, emit_on_expiry: bool) -> WindowPlan:
    within = _length(window.within)
    if window.slide is None:
        reason = f"{place} has no SLIDE: a result whenever a match ends, over the time up to then"
        return WindowPlan(WindowKind.TRAILING, within, emit_on_expiry=emit_on_expiry, reason=reason)
    slide = _length(window.slide)
    overlap = -(-within // slide) if slide else 1
    pane = math.gcd(within, slide)
    if isinstance(window.within, tree.EventCount):
        reason = f"{place} counts the events of each partition"
        return WindowPlan(WindowKind.COUNT, within, slide, pane, overlap, reason=reason)
    if within == slide:
        reason = f"{place} slides by its own length: every event is in one window"
        return WindowPlan(WindowKind.TUMBLING, within, slide, within, 1, reason=reason)
    reason = f"{place}: an event is in up to {overlap} windows, cut into panes that they share"
    return WindowPlan(WindowKind.SLIDING, within, slide, pane, overlap, reason=reason)


def _in_ticks(
    plan: WindowPlan, window: tree.Window, source: Source, findings: Findings
) -> WindowPlan:
    """Convert the window to the ticks of integer times; other time types have a unit."""
    if plan.kind is WindowKind.COUNT:
        return plan
    tick_ns = tick_of(source, [source.schema])
    lengths = (plan.within, plan.slide, plan.pane)
    ticks = in_ticks(lengths, tick_ns, source, window.span, findings)
    if ticks is None:
        return plan
    within, slide, pane = ticks
    return msgspec.structs.replace(plan, within=within, slide=slide, pane=pane)
